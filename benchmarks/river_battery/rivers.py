"""River's models with their default options, but for ten members where a model is an ensemble.

Linear regression on what RBFSampler gives diverges with its default step of 0.01, on every stream
(River's sampler makes 100 features of each column, none of them scaled); it has one of 0.001.
"""

from __future__ import annotations

from typing import Any

from benchmarks.river_battery.contestant import ALL, BOTH, SEED, Contestant
from benchmarks.river_battery.streams import Stream


def _last_layer(stream: Stream) -> Any:
    from river import linear_model

    if stream.task == "regression":
        return linear_model.LinearRegression()
    binary = stream.task == "binary"
    return linear_model.LogisticRegression() if binary else linear_model.SoftmaxRegression()


def _linear(stream: Stream) -> Any:
    from river.preprocessing import StandardScaler

    return StandardScaler() | _last_layer(stream)


def _sampled(stream: Stream) -> Any:
    from river.feature_extraction import RBFSampler
    from river.linear_model import LinearRegression
    from river.optim import SGD
    from river.preprocessing import StandardScaler

    regression = stream.task == "regression"
    last = LinearRegression(SGD(0.001)) if regression else _last_layer(stream)
    return StandardScaler() | RBFSampler(seed=SEED) | last


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
    from river.preprocessing import StandardScaler

    engine = neighbors.SWINN(seed=SEED)
    if stream.task == "regression":
        return StandardScaler() | neighbors.KNNRegressor(engine=engine)
    return StandardScaler() | neighbors.KNNClassifier(engine=engine)


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

CONTESTANTS = tuple(
    Contestant(name, make, "river", settings, tasks)
    for name, make, settings, tasks in (
        ("no change", _no_change, "the last label", ALL),
        ("majority, mean", _usual, "the most frequent label, the mean", ALL),
        ("River linear", _linear, "StandardScaler, logistic, softmax or linear", ALL),
        ("River Hoeffding tree", _tree, "defaults", ALL),
        ("River naive Bayes", _bayes, "GaussianNB, defaults", BOTH),
        ("River HAT", _adaptive_tree, "defaults", ALL),
        ("River ARF, 10", _adaptive_forest, "n_models=10", ALL),
        ("River AMF, 10", _mondrian_forest, "n_estimators=10", ALL),
        (
            "River RBFSampler",
            _sampled,
            "StandardScaler, RBFSampler, as linear; regression: SGD(0.001)",
            ALL,
        ),
        ("River lev. bagging, 10", _bagging, "HoeffdingTreeClassifier, n_models=10", BOTH),
        ("River kNN", _neighbours, "StandardScaler, SWINN, defaults", ALL),
        ("River SRP, 10", _patches, "n_models=10", ALL),
    )
)
"""The quick ones first."""
