"""River's models with their default options, but for ten members where a model is an ensemble.

In regression all stand behind a StandardScaler: the linear models in the leaves of River's trees
diverge without one. So does AMF for classes, too: where it splits depends on the columns' ranges,
and with scaled ones it is the better on average.

Linear regression on what RBFSampler gives diverges with its default step of 0.01, on every stream
(River's sampler makes 100 features of each column, none of them scaled); it has one of 0.001.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.river_battery.contestant import ALL, BOTH, SEED, Contestant
from benchmarks.river_battery.streams import Stream

_Maker = Callable[[Stream], Any]


def _linear(stream: Stream) -> Any:
    from river import linear_model

    if stream.task == "regression":
        return linear_model.LinearRegression()
    binary = stream.task == "binary"
    return linear_model.LogisticRegression() if binary else linear_model.SoftmaxRegression()


def _sampled(stream: Stream) -> Any:
    from river.feature_extraction import RBFSampler
    from river.linear_model import LinearRegression
    from river.optim import SGD

    regression = stream.task == "regression"
    last = LinearRegression(SGD(0.001)) if regression else _linear(stream)
    return RBFSampler(seed=SEED) | last


def _bayes(_: Stream) -> Any:
    from river.naive_bayes import GaussianNB

    return GaussianNB()


def _tree(stream: Stream) -> Any:
    from river import tree

    if stream.task == "regression":
        return tree.HoeffdingTreeRegressor()
    return tree.HoeffdingTreeClassifier()


def _adaptive_tree(stream: Stream) -> Any:
    from river import tree

    if stream.task == "regression":
        return tree.HoeffdingAdaptiveTreeRegressor(seed=SEED)
    return tree.HoeffdingAdaptiveTreeClassifier(seed=SEED)


def _adaptive_forest(stream: Stream) -> Any:
    from river import forest

    if stream.task == "regression":
        return forest.ARFRegressor(n_models=10, seed=SEED)
    return forest.ARFClassifier(n_models=10, seed=SEED)


def _mondrian_forest(stream: Stream) -> Any:
    from river import forest

    if stream.task == "regression":
        return forest.AMFRegressor(n_estimators=10, seed=SEED)
    return forest.AMFClassifier(n_estimators=10, seed=SEED)


def _patches(stream: Stream) -> Any:
    from river import ensemble

    if stream.task == "regression":
        return ensemble.SRPRegressor(n_models=10, seed=SEED)
    return ensemble.SRPClassifier(n_models=10, seed=SEED)


def _bagging(_: Stream) -> Any:
    from river.ensemble import LeveragingBaggingClassifier
    from river.tree import HoeffdingTreeClassifier

    return LeveragingBaggingClassifier(HoeffdingTreeClassifier(), n_models=10, seed=SEED)


def _neighbours(stream: Stream) -> Any:
    from river import neighbors

    engine = neighbors.SWINN(seed=SEED)
    if stream.task == "regression":
        return neighbors.KNNRegressor(engine=engine)
    return neighbors.KNNClassifier(engine=engine)


class _LastNumber:
    """The last number that was learned."""

    last: float | None = None

    def predict_one(self, _: Any) -> float | None:
        return self.last

    def learn_one(self, _: Any, y: float) -> None:
        self.last = y


def _no_change(stream: Stream) -> Any:
    from river.dummy import NoChangeClassifier

    return _LastNumber() if stream.task == "regression" else NoChangeClassifier()


def _usual(stream: Stream) -> Any:
    from river import dummy, stats

    if stream.task == "regression":
        return dummy.StatisticRegressor(stats.Mean())
    return dummy.PriorClassifier()


BASELINES = ("no change", "majority, mean")


def _scaled(make: _Maker, stream: Stream) -> Any:
    from river.preprocessing import StandardScaler

    return StandardScaler() | make(stream)


def _scaled_numbers(make: _Maker, stream: Stream) -> Any:
    return _scaled(make, stream) if stream.task == "regression" else make(stream)


def _contestant(
    name: str,
    make: _Maker,
    settings: str,
    tasks: tuple[str, ...] = ALL,
    *,
    scaled: bool = False,
) -> Contestant:
    """A model behind a StandardScaler, always or in regression alone."""
    if scaled:
        return Contestant(
            name, partial(_scaled, make), "river", f"StandardScaler, {settings}", tasks
        )
    behind = f"StandardScaler, {settings}" if "regression" in tasks else ""
    maker = partial(_scaled_numbers, make)
    return Contestant(name, maker, "river", settings, tasks, of_numbers=behind)


CONTESTANTS = (
    Contestant("no change", _no_change, "river", "the last label"),
    Contestant("majority, mean", _usual, "river", "the most frequent label, the mean"),
    _contestant("River linear", _linear, "logistic, softmax or linear", scaled=True),
    _contestant("River Hoeffding tree", _tree, "defaults"),
    _contestant("River naive Bayes", _bayes, "GaussianNB, defaults", BOTH),
    _contestant("River HAT", _adaptive_tree, "defaults"),
    _contestant("River AMF, 10", _mondrian_forest, "n_estimators=10", scaled=True),
    _contestant("River ARF, 10", _adaptive_forest, "n_models=10"),
    _contestant("River kNN", _neighbours, "SWINN, defaults", scaled=True),
    _contestant(
        "River RBFSampler",
        _sampled,
        "RBFSampler, as linear; regression: SGD(0.001)",
        scaled=True,
    ),
    _contestant("River SRP, 10", _patches, "n_models=10"),
    _contestant("River lev. bag., 10", _bagging, "HoeffdingTreeClassifier, n_models=10", BOTH),
)
"""The quick ones first."""
