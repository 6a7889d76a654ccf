"""States of trained learners that are damaged by chance, and what becomes of them.

`mutated` damages a state by a seed. `fate` loads it, predicts and learns, and says what happened;
run as a program, this file does so for many seeds, one JSON object a line, so that a crash, or what
takes too long, is known by the last seed that was begun. To repeat one:

    python tests/state_fuzz.py --first SEED --count 1 --learners NAME,NAME...

with the names that were in use, in their order.

A mutation must be refused, by a StateError or an InvalidInput, or do no harm: predictions and
probabilities are finite, the latter within [0, 1], before and after 20 more events. It may take a
second of the processor, and memory of four times the state and `ALLOWANCE`, as Python and NumPy
allocate it; what anyone allocates is limited to `ROOM` by the operating system.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import ctypes
import faulthandler
import json
import math
import mmap
import resource
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from learners_kit import made, scaled

from streamk.contest import Contest
from streamk.distributed import Sharded
from streamk.errors import InvalidInput, StateError
from streamk.kernels import Gaussian, Linear, Polynomial, Zonal
from streamk.learners import (
    AdaGrad,
    Constant,
    DoublyStochastic,
    EigenPro,
    EntityMemory,
    FeatureMachine,
    Ladder,
    MultiKernel,
    OnlineKernelRidge,
    OnlineNystrom,
    StreamingMeka,
)
from streamk.learners.registry import from_state
from streamk.learners.rfm import metric_tree
from streamk.state import State

Arrays = dict[str, np.ndarray[Any, Any]]

ALLOWANCE = 48 << 20
"""Bytes that a state of any size may take beside four times its own: features that are made anew
from the seed, what a batch of predictions needs, and the interpreter's own."""
ROOM = 2 << 30
"""Bytes of address space that a mutation may take."""
SECONDS = 1.0
"""Of the processor."""
_STUCK = 60.0
"""Seconds after which a process ends itself and says where it was."""
_D, _LEARNED, _FEW, _MANY, _MORE = 3, 120, 2, 320, 20


# --- learners -------------------------------------------------------------------------------------


def events(n: int, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return events (n, d), and numbers that follow from them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, _D)) * [1.0, 100.0, 0.01]
    return X, np.sign(X[:, 0]) * np.abs(X[:, 1]) ** 0.5 + 0.1 * rng.normal(size=n)


def labels(task: str, y: np.ndarray[Any, Any]) -> Any:
    """Return the labels of a task."""
    if task == "numbers":
        return y
    return np.array(["a", "b", "c"])[np.digitize(y, [0.0] if task == "two" else [-3.0, 3.0])]


def _task(labels: str) -> str:
    return "regression" if labels == "numbers" else "classification"


@contextlib.contextmanager
def small_leaves() -> Iterator[None]:
    """Have leaves of feature machines divided from 128 events on."""
    before = metric_tree.SPLITS
    metric_tree.SPLITS = 128, 128
    try:
        yield
    finally:
        metric_tree.SPLITS = before


def _sharded(_: str) -> Any:
    """Return a learner that is in the second shard of a round after `_LEARNED` events."""
    return Sharded(scaled(DoublyStochastic, max_features=64, **_STEPS), shards=2, round_events=7)


def _contest(_: str) -> Any:
    """Return a contest in which a challenger was promoted."""
    poor = scaled(DoublyStochastic, kernel=Linear(), step=Constant(1e-6))
    models = {"poor": poor, "good": scaled(DoublyStochastic, **_STEPS), "many": made(MultiKernel)}
    contest = Contest(models, promote_after=50)
    contest.promote("good")
    return contest


def _entities(labels: str) -> Any:
    """Return a learner around another one, whose third column has entities."""
    inside = scaled(DoublyStochastic, _task(labels), max_features=64, **_STEPS)
    return EntityMemory(inside, entities=[2], time=1, spans=[60.0], max_entities=50)


def _external(labels: str) -> Any:
    small = made(OnlineNystrom, _task(labels), max_landmarks=8, kernel=Gaussian())
    steps = made(DoublyStochastic, _task(labels), max_features=256, block_size=256, batch_size=4)
    return made(MultiKernel, _task(labels), external_experts=[small, steps])


def _of(kind: type, make: Any = scaled, **options: Any) -> Callable[[str], Any]:
    return lambda labels: make(kind, _task(labels), **options)


_STEPS: dict[str, Any] = {"step": Ladder(), "batch_size": 1}
_MEKA: dict[str, Any] = {
    "rank": 6,
    "first": 40,
    "every": 1024,
    "swap_delay": 25,
    "buffer_size": 50,
    "growth": 8,
    "max_error": 1.5,
    "max_shift": 0.1,
    "kernel": Gaussian(bandwidth=0.5),
}
_LEAVES: dict[str, Any] = {"first": 70, "every": 1024, "swap_delay": 60, "kernel": None}
_LEAVES |= {"buffer_size": 64, "reservoir_size": 240, "rounds": 4}
LEARNERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "multi-kernel two": ("two", _of(MultiKernel)),
    "multi-kernel three": ("three", _of(MultiKernel, class_weight="balanced")),
    "multi-kernel numbers": ("numbers", _of(MultiKernel)),
    "multi-kernel external experts": ("three", _external),
    "multi-kernel external experts of numbers": ("numbers", _external),
    "doubly-stochastic": ("three", _of(DoublyStochastic, max_features=512, **_STEPS)),
    "doubly-stochastic numbers": (
        "numbers",
        _of(DoublyStochastic, sampler="hadamard", block_size=64, max_features=2048, **_STEPS),
    ),
    "doubly-stochastic adagrad": (
        "two",
        _of(
            DoublyStochastic,
            loss="logistic",
            step=AdaGrad(0.5),
            batch_size=7,
            block_size=64,
            max_features=640,
        ),
    ),
    "doubly-stochastic polynomial": (
        "three",
        _of(DoublyStochastic, kernel=Polynomial(), step=Constant(0.05)),
    ),
    "doubly-stochastic zonal": ("two", _of(DoublyStochastic, kernel=Zonal(), loss="hinge")),
    "doubly-stochastic orthogonal": (
        "numbers",
        _of(DoublyStochastic, loss="huber", sampler="orthogonal"),
    ),
    "online-nystrom": ("three", _of(OnlineNystrom)),
    "online-nystrom newton": ("numbers", _of(OnlineNystrom, optimizer="newton")),
    "streaming-meka": ("numbers", _of(StreamingMeka, **_MEKA)),
    "streaming-meka newton": (
        "three",
        _of(StreamingMeka, **_MEKA | {"optimizer": "newton", "first": 65}),
    ),
    "streaming-meka plain": (
        "two",
        _of(
            StreamingMeka,
            made,
            **_MEKA
            | {"kernel": Gaussian(bandwidth=50.0), "n_clusters": 3, "first": 100}
            | {"rank": 4, "swap_delay": 40, "buffer_size": 30},
        ),
    ),
    "kernel-ridge": ("three", _of(OnlineKernelRidge, max_centers=64)),
    "eigenpro": ("three", _of(EigenPro, n_centers=12, batch_size=16, solver="direct")),
    "eigenpro numbers": ("numbers", _of(EigenPro, n_centers=12, batch_size=16, solver="eigenpro")),
    "kernel-ridge numbers": ("numbers", _of(OnlineKernelRidge, max_centers=64)),
    "feature-machine": ("three", _of(FeatureMachine, kernel=None, first=100, swap_delay=40)),
    "feature-machine numbers": ("numbers", _of(FeatureMachine, kernel=None, swap_delay=40)),
    "feature-machine leaves": ("two", _of(FeatureMachine, **_LEAVES)),
    "feature-machine leaves of numbers": ("numbers", _of(FeatureMachine, **_LEAVES)),
    "entities": ("three", _entities),
    "entities of numbers": ("numbers", _entities),
    "sharded": ("two", _sharded),
    "contest": ("two", _contest),
    "multi-kernel new": ("two", _of(MultiKernel)),
    "doubly-stochastic new": ("two", _of(DoublyStochastic, batch_size=7, max_features=640)),
    "online-nystrom new": ("numbers", _of(OnlineNystrom)),
    "streaming-meka new": ("three", _of(StreamingMeka, **_MEKA)),
    "kernel-ridge new": ("two", _of(OnlineKernelRidge, max_centers=64)),
    "eigenpro new": ("two", _of(EigenPro, n_centers=64, batch_size=16, solver="direct")),
}
"""What each one learns, and its maker. New ones have learned few events."""
POOLED = tuple(name for name in LEARNERS if name.startswith("multi-kernel"))
OF_ONE_KERNEL = tuple(name for name in LEARNERS if name not in POOLED)


def trained(name: str) -> State:
    """Return the state of a learner that has learned some events."""
    task, make = LEARNERS[name]
    count = _FEW if name.endswith("new") else _MANY if "leaves" in name else _LEARNED
    model, (X, y) = make(task), events(count)
    with small_leaves():
        model.learn_many(X, labels(task, y))
        state: State = model.state()
    return State(json.loads(json.dumps(state.header)), state.arrays)


# --- mutations ------------------------------------------------------------------------------------

_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 7, 63, 64, 1000, 10**6, 2**31 - 1, 2**31, 2**34, 2**40, 2**53, 2**60),
    *(2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, -(2**31), -(2**63)),
    *(0.0, 0.5, -0.5, 1.5, 1e-320, 1e-200, 1e-30, 1e30, 1e150, 1e308, -1e308),
)
_OTHERS: tuple[Any, ...] = (None, True, False, "", "x", "3", [], [1], [[]], {}, {"a": 1})
_FLOATS = (math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-320, 1e-30, 1e30, 1e150, 1e308, -1e308)
_INTS = (-1, 0, 1, 2, 3, 255, 2**15, 2**31 - 1, -(2**31), 2**62, -(2**63))
_DTYPES = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint64", "bool")


def mutated(state: State, seed: int) -> tuple[State, str]:
    """Return a state that was damaged, and in which way.

    `InvalidInput`: if what came of it is no state.
    """
    rng = np.random.default_rng(seed)
    header, arrays = copy.deepcopy(state.header), dict(state.arrays)
    said = []
    for _ in range(1 + int(rng.integers(3)) * int(rng.integers(4) == 0)):
        if rng.random() < 0.45:
            said.append(_damage_header(rng, header))
        else:
            said.append(_damage_arrays(rng, arrays))
    try:
        return State(header, arrays), "; ".join(said)
    except (InvalidInput, StateError) as error:
        raise InvalidInput(f"{'; '.join(said)}: {error}") from None


def _one_of(rng: np.random.Generator, some: Sequence[Any]) -> Any:
    return some[int(rng.integers(len(some)))]


def _places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all that is in nested lists and dicts."""
    items: Any = ()
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    for key, value in items:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _damage_header(rng: np.random.Generator, header: Any) -> str:
    path = _one_of(rng, list(_places(header)))
    holder = header
    for key in path[:-1]:
        holder = holder[key]
    key, old = path[-1], holder[path[-1]]
    chance = rng.random()
    if isinstance(old, list) and chance < 0.6:
        holder[key] = new = _other_list(rng, old)
    elif chance < 0.15:
        del holder[key]
        return f"header without {path}"
    elif chance < 0.2 and isinstance(holder, dict):
        holder[str(_one_of(rng, ("a", "parts", "next", "gamma")))] = _one_of(rng, _NUMBERS)
        return f"header with more beside {path}"
    elif isinstance(old, int | float) and chance < 0.8:
        new = _one_of(rng, _NUMBERS)
        if rng.random() < 0.3:
            new = type(old)(old + _one_of(rng, (1, -1, 2)))
        holder[key] = new
    elif isinstance(old, str) and chance < 0.6:
        words = [v for v in _words(header) if v != old]
        holder[key] = new = _one_of(rng, words) if words else ""
    else:
        holder[key] = new = copy.deepcopy(_one_of(rng, _OTHERS + _NUMBERS))
    return f"header {path} = {str(new)[:60]!r}"


def _other_list(rng: np.random.Generator, old: list[Any]) -> list[Any]:
    ways: tuple[Callable[[], list[Any]], ...] = (
        lambda: old[:-1],
        lambda: [*old, *old],
        lambda: [*old, _one_of(rng, _OTHERS + _NUMBERS)],
        lambda: old[::-1],
        lambda: [*old, "more", 77],
    )
    return ways[int(rng.integers(len(ways)))]()


def _words(header: Any) -> list[str]:
    found = []
    for path in _places(header):
        value = header
        for key in path:
            value = value[key]
        if isinstance(value, str):
            found.append(value)
    return [*found, "laplacian", "matern", "ntk", "linear", "hinge", "quantile", "float64"]


def _damage_arrays(rng: np.random.Generator, arrays: Arrays) -> str:
    name, other = (_one_of(rng, list(arrays)) for _ in range(2))
    array, chance = arrays[name], rng.random()
    if chance < 0.5:
        arrays[name], said = _other_values(rng, array)
    elif chance < 0.6:
        dtype = _one_of(rng, _DTYPES)
        with np.errstate(all="ignore"):
            arrays[name], said = array.astype(dtype), dtype
    elif chance < 0.85:
        arrays[name], said = _other_shape(rng, array)
    elif chance < 0.9:
        del arrays[name]
        said = "gone"
    elif chance < 0.93:
        arrays[f"{name}.more"] = np.ones((3, 2))
        said = "with another one beside"
    else:
        arrays[name], arrays[other] = arrays[other], array
        said = f"swapped with {other!r}"
    return f"array {name!r} {said}"


def _other_values(rng: np.random.Generator, array: Any) -> tuple[Any, str]:
    new = np.array(array)
    if not new.size:
        return new, "as it was"
    flat = new.reshape(-1)
    some = rng.random(flat.size) < _one_of(rng, (1.0, 0.1, 2.0 / flat.size))
    some[int(rng.integers(flat.size))] = True
    if rng.random() < 0.25:
        bits = flat.view(np.uint8).reshape(flat.size, -1)
        bit = int(rng.integers(8 * bits.shape[1]))
        bits[some, bit // 8] ^= np.uint8(1 << bit % 8)
        if new.dtype == bool:
            new = new.view(np.uint8) != 0
        return new, f"bit {bit} turned in {some.sum()}"
    value = _one_of(rng, _FLOATS if new.dtype.kind == "f" else _INTS)
    with np.errstate(all="ignore"):
        flat[some] = np.array([value]).astype(new.dtype)[0]
    return new, f"{value} in {some.sum()}"


def _other_shape(rng: np.random.Generator, array: Any) -> tuple[Any, str]:
    new, way = np.array(array), int(rng.integers(9))
    ways: tuple[Callable[[], Any], ...] = (
        lambda: np.concatenate([new, new]),
        lambda: new[:-1],
        lambda: new[..., :-1].copy(),
        lambda: np.concatenate([new, new[..., :1]], axis=-1),
        lambda: np.ascontiguousarray(new.T),
        lambda: new.reshape(-1),
        lambda: np.zeros((), new.dtype),
        lambda: np.zeros((0, *new.shape[1:]), new.dtype),
        lambda: np.zeros((0, 2**40), new.dtype),
    )
    found = ways[way if new.ndim or way > 3 else 8]()
    return found, f"of shape {found.shape}"


# --- what becomes of them -------------------------------------------------------------------------


def fate(state: State, task: str) -> str:
    """Return what became of a state: "refused" in some way, or "harmless".

    `Exception`: whatever is neither.
    """
    try:
        model = from_state(state)
    except StateError:
        return "refused"
    except InvalidInput:
        return "refused as input"
    return _used(model, task)


def _used(model: Any, task: str) -> str:
    X, y = events(_MORE, seed=1)
    named = labels(task, y)
    try:
        _look(model, X[:8])
    except InvalidInput:
        return "refused when predicting"
    said, half = "harmless", _MORE // 2
    try:
        for x, label in zip(X[:half], named[:half].tolist(), strict=True):
            model.predict_one(x)
            model.learn_one(x, label)
        found = model.predict_then_learn_many(X[half:], named[half:])
        _check(found.predictions, found.probabilities)
    except InvalidInput:
        said = "harmless, learns no more"
    _look(model, X[:8])
    model.state()
    return said


def _look(model: Any, X: np.ndarray[Any, Any]) -> None:
    """Predict in all ways."""
    found = model.predict_many(X)
    P = model.predict_proba_many(X) if model.is_classifier else None
    _check(found, P)
    model.predict_one(X[0])
    if P is not None:
        model.predict_proba_one(X[0])
    elif model.mixes_experts:
        assert np.isfinite(model.predict_interval_many(X)).all(), "intervals are not finite"


def _check(predictions: Any, P: Any) -> None:
    if P is None:
        numbers = np.array([p for p in predictions if p is not None], np.float64)
        assert np.isfinite(numbers).all(), f"predictions are not finite: {numbers}"
    else:
        assert ((P >= 0.0) & (P <= 1.0 + 1e-9)).all(), f"no probabilities: {P}"


def judged(state: State, task: str, seed: int, *, again: bool = False) -> dict[str, Any]:
    """Return what became of a mutation, what it was, and its time and memory."""
    tracemalloc.reset_peak()
    before, began = tracemalloc.get_traced_memory()[0], time.process_time()
    said, size = "no state", state.nbytes
    try:
        damaged, said = mutated(state, seed)
        size = damaged.nbytes + len(json.dumps(damaged.header))
        found = fate(damaged, task)
    except InvalidInput as error:
        found, said = "refused as no state", str(error)
    except Exception as error:
        found = f"FAULT {type(error).__name__}: {str(error)[:300]}"
    seconds = time.process_time() - began
    memory = tracemalloc.get_traced_memory()[1] - before
    if not found.startswith("FAULT") and memory > 4 * size + ALLOWANCE:
        found = f"FAULT took {memory:,} bytes for a state of {size:,}"
    if not found.startswith("FAULT") and seconds > SECONDS:
        if not again:  # what it takes may have been compiled only now
            return judged(state, task, seed, again=True)
        found = f"FAULT took {seconds:.1f} s"
    return {"seed": seed, "found": found, "said": said, "seconds": seconds, "memory": memory}


def guarded(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of arrays each of which ends where memory ends that may be touched.

    It stands in for `streamk.learners.multi_kernel.expert_pool.side_by_side`, so that code reading
    or writing beyond an array crashes. Arrays end at lines of the cache, as they begin there.
    """
    libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
    found = {}
    for name, array in arrays.items():
        if not array.nbytes:
            found[name] = array
            continue
        room = -(-array.nbytes // 64) * 64
        pages = -(-room // page)
        memory = mmap.mmap(-1, (pages + 1) * page)
        beyond = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages * page
        if libc.mprotect(ctypes.c_void_p(beyond), ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
        flat = np.frombuffer(memory, np.uint8, array.nbytes, pages * page - room)
        found[name] = flat.view(array.dtype).reshape(array.shape)
        found[name][...] = array
    return found


def guard() -> None:
    """Let all arrays that compiled code reaches by addresses end where memory ends."""
    from streamk.learners.multi_kernel import expert_pool, intervals

    for module in (expert_pool, intervals):
        module.side_by_side = guarded  # type: ignore[attr-defined]


def limit_memory() -> None:
    """Let this process take no more than so much more of the address space."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * mmap.PAGESIZE + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(arguments: Sequence[str]) -> None:
    """Judge mutations of some learners, the learner changing from seed to seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--guard", action="store_true")
    chosen = parser.parse_args(arguments)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    if chosen.guard:
        guard()
    names = chosen.learners.split(",")
    states = {name: trained(name) for name in names}
    for name, state in states.items():  # compiles what is needed
        assert fate(state, LEARNERS[name][0]) == "harmless", name
    limit_memory()
    tracemalloc.start(1)
    for seed in range(chosen.first, chosen.first + chosen.count):
        name = names[seed % len(names)]
        print(json.dumps({"begun": seed, "learner": name}), flush=True)
        faulthandler.dump_traceback_later(_STUCK, exit=True)
        with small_leaves():
            found = judged(states[name], LEARNERS[name][0], seed)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"learner": name, **found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
