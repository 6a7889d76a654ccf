"""Labelled predictions on their way to the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from streamk.engine.training.beside import Scored
from streamk.engine.training.scoring import Scoring
from streamk.errors import InvalidInput
from streamk.learners.common.prequential import Prequential

N = 5_000
CLASSES = ("a", "b", "c")


def scoring(*, classification: bool, names: tuple[str, ...]) -> Scoring:
    return Scoring(
        classification=classification,
        window=100,
        names=names,
        regions=None,
        slices=None,
        alarm_sink=None,
        quantile=None,
    )


def add_classes(to: Scoring, cuts: Sequence[int], *, read: bool) -> None:
    """Add a stream in pieces; the third class is known from the middle on."""
    rng = np.random.default_rng(0)
    P, truth = rng.dirichlet(np.ones(3), N), rng.integers(0, 3, N)
    for first, stop in zip([0, *cuts], [*cuts, N], strict=True):
        known = 2 if first < N // 2 else 3
        given, at = P[first:stop, :known], np.arange(first, stop) + 1
        answers = np.array([CLASSES[k] for k in given.argmax(axis=1)], object)
        labels = [CLASSES[k] for k in truth[first:stop]]
        to.add(at, CLASSES[:known], Scored(at, Prequential(answers, given), labels), None)
        if read:
            assert to.metrics.scored == stop


def add_numbers(to: Scoring, cuts: Sequence[int], *, read: bool) -> None:
    """Add a stream in pieces."""
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=N))
    answers = y + rng.normal(size=N)
    for first, stop in zip([0, *cuts], [*cuts, N], strict=True):
        at = np.arange(first, stop) + 1
        told = Prequential(answers[first:stop], None)
        to.add(at, (), Scored(at, told, y[first:stop].tolist()), None)
        if read:
            assert to.metrics.scored == stop


@pytest.mark.parametrize(
    ("add", "classification", "names"),
    [(add_classes, True, ("F1=a", "ROCAUC=b", "CohenKappa")), (add_numbers, False, ("R2",))],
)
def test_figures_do_not_depend_on_pieces_or_on_when_they_are_read(
    add: Any, classification: bool, names: tuple[str, ...]
) -> None:
    half = N // 2  # a piece has the same classes throughout
    some = np.unique([half, *np.random.default_rng(1).integers(1, N, 300)]).tolist()
    found = []
    for cuts, read in (([half], False), (some, False), (some, True)):
        one = scoring(classification=classification, names=names)
        add(one, cuts, read=read)
        found.append(one.to_json())
    assert found[0] == found[1] == found[2]
    assert found[0]["metrics"]["scored"] == N


def test_what_waits_is_not_of_what_is_restored() -> None:
    one = scoring(classification=False, names=())
    before = one.to_json()
    add_numbers(one, [N - 3], read=False)
    one.restore(before)
    assert one.to_json() == before


def test_a_figure_that_cannot_be_had_is_told_whenever_figures_are_read() -> None:
    one = scoring(classification=False, names=("RMSLE",))
    at = np.array([1])
    one.add(at, (), Scored(at, Prequential(np.array([1.0]), None), [-3.0]), None)
    for _ in range(2):
        with pytest.raises(InvalidInput, match="RMSLE is not defined for the label -3"):
            one.to_json()
