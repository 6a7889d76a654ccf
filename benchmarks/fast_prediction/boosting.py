"""Boosted trees: LightGBM by itself, and served by Treelite.

Models have 31 leaves a tree, as is LightGBM's default, and 3 to 300 rounds of boosting (100 is the
default), of each of which there is a tree for every class, or one where there are two. They learn
from all rows, and predict by one thread. Seconds of training have those of the compiler in them.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.fast_prediction import compiled_trees
from benchmarks.fast_prediction.contestants import Contestant, Train
from benchmarks.fast_prediction.problems import Problem

ROUNDS = (3, 10, 30, 100, 300)
INTERPRETED, COMPILED = "LightGBM", "LightGBM by Treelite"


def contestants(*, quick: bool) -> dict[str, Train]:
    """Models of each size, for what is installed."""
    rounds = ROUNDS[:1] if quick else ROUNDS
    found: dict[str, Train] = {}
    if importlib.util.find_spec("lightgbm"):
        found |= {f"{INTERPRETED}, {count}": _interpreted(count) for count in rounds}
    if not compiled_trees.missing():
        found |= {f"{COMPILED}, {count}": _compiled(count) for count in rounds}
    return found


def missing() -> dict[str, str]:
    """Contestants that cannot run here, and what they need."""
    found = {}
    if not importlib.util.find_spec("lightgbm"):
        found[INTERPRETED] = "lightgbm"
    if compiled_trees.missing():
        found[COMPILED] = ", ".join(compiled_trees.missing())
    return found


def _fitted(rows: Problem, rounds: int) -> Any:
    import lightgbm

    model = lightgbm.LGBMClassifier(n_estimators=rounds, n_jobs=1, verbose=-1)
    return model.fit(rows.X, rows.y)


def _interpreted(rounds: int) -> Train:
    """LightGBM's own prediction."""

    def train(rows: Problem) -> Contestant:
        model = _fitted(rows, rounds)
        return Contestant(model.predict, model.predict)

    return train


def _compiled(rounds: int) -> Train:
    """Its trees as a library."""

    def train(rows: Problem) -> Contestant:
        model = _fitted(rows, rounds)
        classes = model.classes_
        outputs = len(classes) if len(classes) > 2 else 1
        predict = compiled_trees.compiled(model.booster_, rows.X.shape[1], outputs)

        def labels(X: Any) -> Any:
            scores = predict(X)
            places = scores.argmax(axis=1) if outputs > 1 else (scores[:, 0] > 0.0).astype(np.intp)
            return classes[places]

        _compare(labels(rows.test[:1000]), model.predict(rows.test[:1000]))
        return Contestant(predict, labels)

    return train


def _compare(labels: Any, expected: Any) -> None:
    """Say so if the library predicts anything else than LightGBM does."""
    others = int(np.sum(labels != expected))
    if others:
        common.note(f"  the library has other labels than LightGBM for {others} events of 1,000")
