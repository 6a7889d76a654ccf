"""Vowpal Wabbit: online linear models, also of all pairs of columns, with its usual losses.

One of its settings is VW's default, one is the customary choice for pairs; all twelve are the grid
from which the best one of each stream is picked in hindsight. In regression the numbers are
standardised as they come: VW goes to numbers far from 0 in steps that are too small to arrive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.river_battery.contestant import Contestant
from benchmarks.river_battery.streams import Event, Stream

_PAIRS = "-q :: -b 22"


class _Vowpal:
    """Events in VW's text form, `label | column:value ...`; what is missing is left out."""

    def __init__(self, stream: Stream, options: str) -> None:
        from river import stats
        from vowpalwabbit import Workspace

        self._names = {column: f"c{j}" for j, column in enumerate(stream.columns)}
        self._labels = [] if stream.task == "regression" else stream.labels
        self._task = stream.task
        binary = self._task == "binary"
        self._index = {y: 2 * j - 1 if binary else j + 1 for j, y in enumerate(self._labels)}
        loss = {
            "binary": "--loss_function logistic --link logistic",
            "classes": f"--loss_function logistic --oaa {len(self._labels)} --probabilities",
            "regression": "",
        }[self._task]
        self._mean, self._variance = stats.Mean(), stats.Var(ddof=0)
        self._workspace = Workspace(f"--quiet {loss} {options}")

    def _text(self, x: Event) -> str:
        names = self._names
        return "| " + " ".join([f"{names[column]}:{value}" for column, value in x.items()])

    def predict_proba_one(self, x: Event) -> Mapping[Any, float]:
        answer = self._workspace.predict(self._text(x))
        if self._task == "binary":
            return {False: 1 - answer, True: answer}
        return dict(zip(self._labels, answer, strict=True))

    def predict_one(self, x: Event) -> float:
        answer: float = self._workspace.predict(self._text(x))
        return self._mean.get() + answer * self._spread

    @property
    def _spread(self) -> float:
        return math.sqrt(self._variance.get()) or 1.0

    def learn_one(self, x: Event, y: Any) -> None:
        if self._task == "regression":
            self._mean.update(y)
            self._variance.update(y)
            label = (y - self._mean.get()) / self._spread
        else:
            label = self._index[y]
        self._workspace.learn(f"{label} {self._text(x)}")


def _contestant(name: str, options: str) -> Contestant:
    settings = f"loss of the task, numbers standardised; {options}"
    return Contestant(name, partial(_Vowpal, options=options), "vowpalwabbit", settings)


DEFAULT = _contestant("VW", "")
QUADRATIC = _contestant("VW -q :: -l 5", f"{_PAIRS} -l 5")
GRID = tuple(
    _contestant(f"VW {pairs}-l {rate:g} --power_t {power:g}", f"{options} -l {rate} {powers}")
    for pairs, options in (("", ""), ("-q :: ", _PAIRS))
    for power, powers in ((0.5, ""), (0, "--power_t 0"))
    for rate in (0.05, 0.5, 5)
    if (rate, power, pairs) not in ((0.5, 0.5, ""), (5, 0.5, "-q :: "))
)
"""The other ten settings of the grid."""
