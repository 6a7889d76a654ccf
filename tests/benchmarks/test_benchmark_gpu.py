"""The benchmark of the GPU, on the host: its kernels compiled by the C compiler, CuPy by NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_host import HostDevice
from cuda_kit import GPU_LACKS, backend_at

from benchmarks import common
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import there
from streamk import backends
from streamk.kernels import Gaussian, Matern, base


class StandIn:
    """What the benchmark takes of the module `cupy`."""

    __version__ = "0"

    def __init__(self, device: HostDevice) -> None:
        self._xp = device.xp
        self.asarray, self.asnumpy = device.put, device.get
        self.RawKernel = lambda *_: lambda *_: None
        rng = np.random.default_rng(0)
        self.random = SimpleNamespace(
            standard_normal=lambda size, dtype: device.put(rng.normal(size=size).astype(dtype))
        )
        properties = {"name": b"none", "multiProcessorCount": 1}
        properties |= {"totalGlobalMem": 1, "l2CacheSize": 1}
        self.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(
                synchronize=lambda: None, attributes={"MultiProcessorCount": 1}
            ),
            nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
            runtime=SimpleNamespace(
                getDeviceProperties=lambda _: properties,
                driverGetVersion=lambda: 13000,
                runtimeGetVersion=lambda: 13020,
            ),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)

    def copyto(self, to: Any, array: Any) -> None:
        to[...] = array


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, select = backend_at("host"), backends.select

    def selected(name: str = "auto") -> Any:
        return backend if name == "cupy" else select(name)

    for module in (backends, base):
        monkeypatch.setattr(module, "select", selected)
    monkeypatch.setattr(backends, "select_devices", lambda _=None: [backend])
    module = StandIn(HostDevice())
    monkeypatch.setattr(there, "cupy", lambda: module)
    monkeypatch.setattr(there, "torch", lambda: None)


@pytest.mark.nightly
@pytest.mark.usefixtures("cupy")
def test_all_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.run(["--quick", "--out", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["results"]
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= 104
    for case in (*found["prediction"], *found["centers"]):
        assert max(case["errors"].values()) < 1e-4
        assert min(figure["low"] for figure in case["us"].values()) > 0
    assert all(one["again"] for one in found["learning"]["alike"].values())
    assert all(one["difference"] < 1e-4 for one in found["learning"]["alike"].values())


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("name", ["gaussian", "matern"])
def test_rivals_evaluate_the_same_kernels(name: str) -> None:
    rng = np.random.default_rng(0)
    X, Y, V = (rng.normal(size=size) for size in ((30, 4), (50, 4), (50, 2)))
    kernel = Gaussian(bandwidth=1.5) if name == "gaussian" else Matern(nu=0.5, bandwidth=1.5)
    rival = there.rivals()["CuPy"]
    x, y, v = map(rival.put, (X, Y, V))
    found = there.sliced(rival, x, 50, lambda some: rival.kernel(name, 1.5, some, y, v))
    np.testing.assert_allclose(rival.get(found), kernel.product(X, Y, V), rtol=1e-6)


def test_a_bound_is_the_slower_of_computing_and_copying() -> None:
    limits = {"loop": {"median": 2000.0}, "copy": {"median": 100.0}}
    assert there.bound(there.Count(10**9, 2 * 10**9, 10**6), limits) == 1000.0
    assert there.bound(there.Count(10**6, 2 * 10**6, 10**9), limits) == 10000.0


@pytest.mark.skipif(GPU_LACKS is None, reason="there is a GPU here")
def test_without_a_gpu_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert common.main(gpu.run, []) == 2
    assert "backend 'cupy' needs" in capsys.readouterr().err
