"""The streams of StreamArena: files in its form, and those that are made in that form."""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common, data

_ANEW = "made_anew.json"
"""Names streams of a directory that are not StreamArena's own events."""


# --- streams --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """A file with a line of names, whose last column is the label."""

    key: str
    """As "classification/real/electricity"."""
    path: str

    @property
    def task(self) -> str:
        return self.key.partition("/")[0]

    @property
    def names(self) -> list[str]:
        with Path(self.path).open(newline="", encoding="utf-8") as file:
            return next(csv.reader(file))

    def rows(self, n: int | None = None) -> Iterator[list[str]]:
        """The first n events, or all, as texts."""
        with Path(self.path).open(newline="", encoding="utf-8") as file:
            yield from islice(csv.reader(file), 1, None if n is None else n + 1)

    @cached_property
    def classes(self) -> list[str]:
        """The classes of the whole stream in StreamArena's order: that of numbers, or of texts."""
        found = {row[-1] for row in self.rows()}
        return sorted(found, key=float if all(map(_is_number, found)) else None)

    def labels(self, n: int | None = None) -> NDArray[Any]:
        """The number of each event's class, or its number."""
        texts = [row[-1] for row in self.rows(n)]
        if self.task == "regression":
            return np.array(texts, dtype=np.float64)
        places = {label: i for i, label in enumerate(self.classes)}
        return np.array([places[text] for text in texts], dtype=np.int64)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def find(directory: Path, wanted: Sequence[str] | None) -> dict[str, Stream]:
    """The streams of a directory, or those of them whose names are wanted."""
    root = directory / "datasets" if (directory / "datasets").is_dir() else directory
    found = {
        str(path.relative_to(root).with_suffix("")): str(path)
        for task in ("classification", "regression")
        for path in sorted((root / task).rglob("*.csv"))
    }
    if not found:
        raise data.DataError(f"{root} has no classification/…/*.csv; see --npz and --generate")
    ends = {name: [key for key in found if f"/{key}".endswith(f"/{name}")] for name in wanted or ()}
    if lacking := [name for name, keys in ends.items() if not keys]:
        raise data.DataError(f"{root} has no stream {lacking[0]}; there are {', '.join(found)}")
    chosen = found if wanted is None else [key for keys in ends.values() for key in keys]
    return {key: Stream(key, found[key]) for key in chosen}


# --- streams that are made ------------------------------------------------------------------------
#
# Of the generated ones StreamArena tells the generator, events, columns and classes, and what its
# names say. Seeds, places and speeds of drifts are ours, so that its figures are of other events.
# Its hyperA is not among them: the labels of MOA's generator vary 200 times as much as those do.

NPZ = {
    "classification/real/adult": "arena_adult",
    "classification/real/airlines": "arena_airlines",
    "classification/real/electricity": "elec2",
    "classification/real/forest_cover_first_100k": "arena_covtype_100k",
    "regression/real/MetroTraffic": "arena_metro_traffic",
    "regression/synth/fried": "arena_fried",
}
Event = tuple[Sequence[Any], Any]


def _of_npz(name: str, directory: str | None, *, quick: bool) -> tuple[list[str], Iterator[Event]]:
    found = data.load(name, directory, quick=quick)
    y = found.y.astype(np.float32) if found.task == "regression" else found.y.astype(int)
    return [*found.columns], zip(found.X, y, strict=True)


def _moa(name: str, **options: Any) -> Iterator[Event]:
    """Events of a generator of CapyMOA; a nominal column is one of 0 and 1 for each value."""
    from capymoa.stream import generator

    stream = getattr(generator, name)(**options)
    sizes = [*map(len, stream.get_schema().get_nominal_attributes().values())]
    for one in stream:
        split = len(one.x) - len(sizes)
        codes = one.x[: len(sizes)] if sizes else one.x[:0]  # they come first
        hot = [float(code == k) for code, n in zip(codes, sizes, strict=True) for k in range(n)]
        yield [*hot, *one.x[-split:]], one.y_index


def _changing(n: int, width: int, *parts: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """Parts of one length, each taking over from the one before within `width` events."""
    rng, streams = np.random.default_rng(1), [part() for part in parts]
    for t in range(n):
        last, since = divmod(t * len(parts), n)
        before = last > 0 and rng.random() * width > since / len(parts)
        yield next(streams[last - before])


def _blobs(n: int, seed: int) -> Iterator[Event]:
    from sklearn.datasets import make_blobs

    yield from zip(*make_blobs(n, 5, centers=5, random_state=seed), strict=True)


def _friedman(kind: str, places: tuple[int, ...]) -> Iterator[Event]:
    from river.datasets import synth

    for x, y in synth.FriedmanDrift(kind, places, transition_window=10_000, seed=1):
        yield [*x.values()], y


def _rbf(
    classes: int, columns: int, centroids: int = 50, speed: float = 0.0, seed: int = 1
) -> Iterator[Event]:
    shape = {"number_of_classes": classes, "number_of_attributes": columns}
    shape |= {"number_of_centroids": centroids, "model_random_seed": seed}
    if not speed:
        return _moa("RandomRBFGenerator", **shape)
    moving = {"number_of_drifting_centroids": centroids, "magnitude_of_change": speed}
    return _moa("RandomRBFGeneratorDrift", **shape, **moving)


def _few(speed: float) -> Iterator[Event]:
    """Five centroids, each of a class of its own: the seed is the first that gives them so."""
    return _rbf(5, 5, 5, speed, seed=22)


def _tree(classes: int, size: int, seed: int = 1) -> Iterator[Event]:
    """`size` numbers, and as many nominal columns of five values."""
    shape = {"num_classes": classes, "num_nominals": size, "num_numerics": size}
    return _moa("RandomTreeGenerator", tree_random_seed=seed, **shape)


def _sea(function: int) -> Callable[[], Iterator[Event]]:
    return partial(_moa, "SEA", function=function, instance_random_seed=function)


def _plane(speed: float) -> Iterator[Event]:
    moving = {"number_of_drifting_attributes": 10, "magnitude_of_change": speed}
    return _moa("HyperPlaneClassification", number_of_attributes=10, **moving)


def _sine(function: int) -> Callable[[], Iterator[Event]]:
    return partial(_moa, "SineGenerator", classification_function=function, balance_classes=True)


def _trees() -> Iterator[Event]:
    return _changing(100_000, 0, *(partial(_tree, 5, 5, seed) for seed in (1, 2, 3)))


def _mixed_sea() -> Iterator[Event]:
    """Two changes at once, between them two that take 50,000 events."""
    slow = partial(_changing, 250_000, 50_000)
    return _changing(500_000, 0, partial(slow, _sea(1), _sea(2)), partial(slow, _sea(3), _sea(4)))


GENERATED: dict[str, tuple[int, Callable[[], Iterator[Event]]]] = {
    "classification/synth/RBFm_100k": (100_000, lambda: _rbf(5, 10, speed=0.0001)),
    "classification/synth/RTG_2abrupt": (100_000, _trees),
    "classification/synth/RTG_highdim_10k": (10_000, lambda: _tree(2, 75)),
    "classification/synth/hyperplane_high_gradual_drift": (
        500_000,
        lambda: _plane(0.01),
    ),
    "classification/synth/movingRBF": (200_000, lambda: _rbf(5, 10, speed=0.001)),
    "classification/synth/sea_high_abrupt_drift": (
        500_000,
        lambda: _changing(500_000, 0, *map(_sea, (1, 2, 3, 4))),
    ),
    "classification/synth/sea_high_mixed_drift": (500_000, _mixed_sea),
    "classification/synth/sine_stream_with_drift": (
        50_000,
        lambda: _changing(50_000, 0, *map(_sine, (1, 2, 3, 4))),
    ),
    "classification/synth/synth_blobs_sudden": (
        100_000,
        lambda: _changing(100_000, 0, *(partial(_blobs, 100_000, seed) for seed in (1, 2))),
    ),
    "classification/synth/synth_rbf_fast": (100_000, lambda: _few(0.001)),
    "classification/synth/synth_rbf_gradual": (100_000, lambda: _few(0.0001)),
    "classification/synth/synth_rbf_random": (100_000, lambda: _rbf(4, 4)),
    "classification/synth/RBF": (10_000, lambda: _rbf(2, 10_000)),
    "regression/synth/FriedmanGra": (100_000, lambda: _friedman("gra", (35_000, 75_000))),
    "regression/synth/FriedmanGsg": (100_000, lambda: _friedman("gsg", (35_000, 75_000))),
    "regression/synth/FriedmanLea": (100_000, lambda: _friedman("lea", (25_000, 50_000, 75_000))),
}
_HUGE = "classification/synth/RBF"
"""A file of 2 GB, made only if it is asked for."""


def write(root: Path, key: str, names: Sequence[str] | None, events: Iterable[Event]) -> None:
    """A stream in StreamArena's form, unless there is one: whole, or not at all."""
    path = root / f"{key}.csv"
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partly = path.with_suffix(".partial")
    with partly.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        for i, (x, y) in enumerate(events):
            if i == 0:
                lines.writerow([*(names or (f"x{j}" for j in range(len(x)))), "class"])
            lines.writerow([*("?" if v != v else str(v) for v in x), str(y)])
    partly.replace(path)


def make(root: Path, options: argparse.Namespace) -> None:
    """The files that are asked for."""

    def is_wanted(key: str) -> bool:
        ends = options.streams or ([] if key == _HUGE else [key])
        return any(f"/{key}".endswith(f"/{name}") for name in ends)

    if options.npz or options.quick:
        for key in filter(is_wanted, NPZ):
            write(root, key, *_of_npz(NPZ[key], options.npz, quick=options.quick))
    for key in filter(is_wanted, GENERATED if options.generate else ()):
        if not (root / f"{key}.csv").is_file():
            common.note(f"making {key}")
            n, events = GENERATED[key]
            write(root, key, None, islice(events(), n))
            known = {*anew(root), key}
            (root / _ANEW).write_text(json.dumps(sorted(known), indent=1) + "\n", encoding="utf-8")


def anew(root: Path) -> list[str]:
    """The streams of a directory that were generated here."""
    path = root / _ANEW
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []
