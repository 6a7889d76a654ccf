"""A champion and its challengers, stated plainly: every model learns alone, event by event."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

ERROR_RATE = Fraction(1, 20)


def mean_wealth(wins: int, losses: int) -> Fraction:
    """Return the integral of (1 + x)^wins (1 - x)^losses over x from 0 to 1, multiplied out."""
    powers = [Fraction(1)]
    for sign in [1] * wins + [-1] * losses:
        powers = [
            (powers[k] if k < len(powers) else 0) + (sign * powers[k - 1] if k else 0)
            for k in range(len(powers) + 1)
        ]
    return sum((power / (k + 1) for k, power in enumerate(powers)), Fraction(0))


class Outcome(NamedTuple):
    """Predictions of the champions, and who became champion after how many labelled events."""

    said: list[Any]
    promoted: list[tuple[int, str]]
    models: Mapping[str, Any]


def contest(models: Mapping[str, Any], X: Any, y: Sequence[Any], promote_after: int = 0) -> Outcome:
    """Have each model predict, then learn, each event; test after blocks of compared events."""
    champion, *_ = models
    said: list[Any] = []
    promoted: list[tuple[int, str]] = []
    blocks: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    number = {name: n for n, name in enumerate(models)}  # of the test that each is in
    tests, labelled = len(models) - 1, 0
    for x, label in zip(X, y, strict=True):
        answers = {
            name: model.predict_then_learn_many(x[None], [label]).predictions.tolist()[0]
            for name, model in models.items()
        }
        said.append(answers[champion])
        if label is None:
            continue
        labelled += 1
        due = []
        for name in models:
            if name == champion or answers[name] is None or answers[champion] is None:
                continue
            blocks[name].append((_error(answers[name], label), _error(answers[champion], label)))
            if promote_after and len(blocks[name]) == promote_after:
                due.append(name)
        better: list[tuple[Fraction, str]] = []
        for name in due:
            block = blocks[name]
            wins = sum(mine < its for mine, its in block)
            losses = sum(mine > its for mine, its in block)
            gain = math.fsum(its - mine for mine, its in block)
            wealth = mean_wealth(wins, losses)
            if wealth * ERROR_RATE >= number[name] * (number[name] + 1) and gain > 0:
                better.append((wealth, name))
        if better:
            most = max(wealth for wealth, _ in better)
            champion = next(name for wealth, name in better if wealth == most)
            promoted.append((labelled, champion))
            due = [name for name in models if name != champion]
            blocks = {name: [] for name in models}
        for name in due:
            tests += 1
            number[name], blocks[name] = tests, []
    return Outcome(said, promoted, models)


def _error(answer: Any, label: Any) -> float:
    if isinstance(label, float):
        return abs(answer - label)
    return float(answer != label)
