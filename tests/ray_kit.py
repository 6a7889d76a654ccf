"""Ray as far as `streamk.distributed` uses it, in this process, with deaths where a test wants.

And the real one, for those that kill processes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class ActorDied(Exception):
    pass


class ObjectLost(Exception):
    pass


class TaskFailed(Exception):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


Call = Callable[[], Any]
Death = Callable[[int, str], str]
"""From the number of a call and its method: "" to live, or to die "before" or "after" it."""


class FakeRay:
    exceptions = SimpleNamespace(
        RayActorError=ActorDied, ObjectLostError=ObjectLost, RayTaskError=TaskFailed
    )

    def __init__(self, death: Death = lambda *_: "") -> None:
        self.death, self.calls = death, list[str]()
        self.hired = list[tuple[dict[str, Any], "FakeActor"]]()

    def put(self, value: Any) -> Any:
        return value

    def get(self, ref: Call) -> Any:
        return ref()

    def kill(self, actor: FakeActor) -> None:
        actor.alive = False

    def remote(self, kind: type) -> Any:
        def options(**chosen: Any) -> Any:
            def hire(*arguments: Any) -> FakeActor:
                actor = FakeActor(self, kind(*arguments))
                self.hired.append((chosen, actor))
                return actor

            return SimpleNamespace(remote=hire)

        return SimpleNamespace(options=options)


class FakeActor:
    def __init__(self, ray: FakeRay, inside: Any) -> None:
        self.ray, self.inside, self.alive = ray, inside, True

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: self._call(method, arguments))

    def _call(self, method: str, arguments: tuple[Any, ...]) -> Call:
        number = len(self.ray.calls)
        self.ray.calls.append(method)
        when = self.ray.death(number, method) if self.alive else "before"
        if when == "before":
            self.alive = False
            return self._raise(ActorDied(f"died before call {number}, {method}"))
        try:
            answer = getattr(self.inside, method)(*arguments)
        except Exception as error:
            return self._raise(TaskFailed(error))
        if when == "after":
            self.alive = False
            return self._raise(ActorDied(f"died after call {number}, {method}"))
        return lambda: answer

    @staticmethod
    def _raise(error: Exception) -> Call:
        def answer() -> Any:
            raise error

        return answer


Fake = Callable[..., FakeRay]
"""Puts a `FakeRay` of these arguments in the place of Ray, and returns it."""


def faking(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> Fake:
    """A function that puts a `FakeRay` in the place of Ray in modules that import it."""

    def install(*arguments: Any) -> FakeRay:
        ray = FakeRay(*arguments)
        for module in modules:
            monkeypatch.setattr(module, "import_ray", lambda: ray)
        return ray

    return install


@contextmanager
def two_raylets() -> Iterator[Any]:
    """Ray with two raylets on this machine, `head` and `second`, which may be killed."""
    with real_ray() as ray:
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 2, "object_store_memory": 80 << 20}
        # Dead after ten seconds of silence: a live one may be silent for some on a busy machine.
        quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 20}
        head = {"include_dashboard": False, "_system_config": quick, **node}
        both = Cluster(initialize_head=True, head_node_args=head)
        try:
            second = both.add_node(**node)
            both.wait_for_nodes()
            ray.init(address=both.address, log_to_driver=False, logging_level="error")
            yield SimpleNamespace(ray=ray, both=both, head=both.head_node, second=second)
        finally:
            ray.shutdown()
            both.shutdown()


@contextmanager
def real_ray() -> Iterator[Any]:
    """The module ray, with a folder of its own for its files; skips where it is missing."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'streamk[ray]'")
    folder = tempfile.mkdtemp(prefix="ray")  # sockets lie below it, whose paths must be short
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", folder)
        try:
            yield ray
        finally:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
