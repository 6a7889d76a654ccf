"""The River estimators: River's own checks, its tools around them, and events of every kind."""

from __future__ import annotations

import copy
import datetime as dt
import math
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kit import same_model
from estimators_kit import of_river
from estimators_kit import small as small_options
from river import (
    base,
    checks,
    compose,
    datasets,
    ensemble,
    evaluate,
    metrics,
    model_selection,
    multiclass,
    preprocessing,
)

from streamk import learners
from streamk.adapters import river as river_
from streamk.adapters.river import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    EigenProClassifier,
    EigenProRegressor,
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    KernelClassifier,
    KernelRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NystromClassifier,
    NystromRegressor,
    StreamingMekaClassifier,
    StreamingMekaRegressor,
)
from streamk.errors import InvalidInput
from streamk.kernels import Gaussian, Matern
from streamk.learners import InverseTime, OnlineNystrom

ONE: dict[str, Any] = {"kernel": "gaussian", "max_features": 256, "block_size": 256, "seed": 1}
MANY: dict[str, Any] = {"seed": 1}
SMALL = ONE
"""Options of the models that `classifier` and `regressor` make: of one kernel, unless told."""

Event = dict[Any, Any]


@pytest.fixture
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SMALL", request.param)


def both(test: Any) -> Any:
    """Run a test with models of many kernels, the default, and of one."""
    test = pytest.mark.usefixtures("small")(test)
    return pytest.mark.parametrize("small", [MANY, ONE], ids=["many", "one"], indirect=True)(test)


def classifier(**options: Any) -> Any:
    made = DoublyStochasticClassifier if SMALL is ONE else KernelClassifier
    return made(**{**SMALL, **options})


def regressor(**options: Any) -> Any:
    made = DoublyStochasticRegressor if SMALL is ONE else KernelRegressor
    return made(**{**SMALL, **options})


def phishing(n: int = 300) -> Iterator[tuple[Event, bool]]:
    return iter(datasets.Phishing().take(n))


def learned(model: Any, events: Any) -> Any:
    for x, y in events:
        model.learn_one(x, y)
    return model


CHECKED: dict[str, base.Estimator] = {
    "classifier": KernelClassifier(),
    "regressor": KernelRegressor(),
    "one kernel": DoublyStochasticClassifier(),
    "regressor of one kernel": DoublyStochasticRegressor(),
    "objects": classifier(kernel=Matern(nu=0.5, bandwidth=1.0), step=InverseTime(100.0), seed=None),
    "blocks": classifier(max_features=512, kernel="laplacian"),
    "hadamard": classifier(sampler="hadamard"),
    "huber": regressor(loss="huber", regularization=1e-4),
    "landmarks": NystromClassifier(),
    "regressor on landmarks": NystromRegressor(),
    "landmarks by least squares": NystromRegressor(optimizer="newton", forgetting=0.999),
    "landmarks by Newton steps": NystromClassifier(optimizer="newton", kernel=Matern(nu=2.5)),
    "clusters": StreamingMekaClassifier(
        rank=4, n_clusters=3, first=64, every=100, swap_delay=32, seed=1
    ),
    "regressor on clusters": StreamingMekaRegressor(rank=4, n_clusters=3, first=64, swap_delay=32),
    "events": KernelRidgeClassifier(),
    "centers": EigenProClassifier(n_centers=32, batch_size=16),
    "regressor on centers": EigenProRegressor(n_centers=32, batch_size=16, solver="eigenpro"),
    "metric": FeatureMachineClassifier(first=64, every=100, swap_delay=32),
    "regressor with a metric": FeatureMachineRegressor(
        kernel="laplacian", buffer_size=64, reservoir_size=64, first=64, swap_delay=32
    ),
    "regressor on events": KernelRidgeRegressor(max_centers=64, regularization=1.0),
    "pipeline": preprocessing.StandardScaler() | KernelClassifier(),
}


FAMILIES = ("classifier", "regressor", "one kernel", "regressor on landmarks", "centers")
"""One of each family is checked at once, all of them nightly."""


def all_checks() -> Iterator[Any]:
    for name, model in CHECKED.items():
        marks = () if name in FAMILIES else pytest.mark.nightly
        for check in checks.yield_checks(model):
            # River's scaler learns from the whole frame before the model sees its first row.
            if name == "pipeline" and check.__name__ == "check_learn_many_matches_learn_one":
                continue
            yield pytest.param(model, check, id=f"{name}-{check.__name__}", marks=marks)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("model", "check"), list(all_checks()))
def test_river_checks(model: base.Estimator, check: Callable[[base.Estimator], None]) -> None:
    random.seed(0)
    check(model.clone())


# What it computes


ESTIMATORS = [
    kind for kind in map(river_.__dict__.get, river_.__all__) if hasattr(kind, "_model_name")
]
every = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)


@every
def test_an_event_is_what_the_learner_gets_as_an_array(kind: Any) -> None:
    """Whatever the order of its columns; a copy, too, goes on so."""
    model, classifies = of_river(kind.__name__, 7), issubclass(kind, base.Classifier)
    learner: Any = learners.create(
        kind._model_name,
        task="classification" if classifies else "regression",
        seed=7,
        **small_options(kind.__name__),
        **({"batch_size": 1} if kind._model_name == "doubly-stochastic" else {}),
        **({"classes": (False, True)} if classifies else {}),
    )
    learner.add_columns(["a", "b"])
    copies: list[Callable[[Any], Any]] = [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy]
    copies.append(lambda model: model.clone(include_attributes=True))
    for n, (a, b) in enumerate(np.random.default_rng(0).normal(size=(120, 2))):
        if learner.n_events:
            expected = learner.predict_many([[a, b]])[0]
            assert model.predict_one({"b": b, "a": a}) == expected
            if classifies:
                found = model.predict_proba_one({"b": b, "a": a})
                assert list(found.values()) == learner.predict_proba_many([[a, b]])[0].tolist()
        y = bool(a * b > 0) if classifies else float(np.sin(2.0 * a))
        if n % 40 == 39:
            before, model = model, copies[n // 40](model)
            before.learn_one({"a": 9.0}, y)  # of which the copy knows nothing
        model.learn_one({"a": a, "b": b}, y)
        learner.learn_one([a, b], y)
    assert same_model(model._model.learner, learner)
    said = model.debug_one({"a": 1.0, "b": 1.0})
    assert "predicted: " in said
    assert "b = " in said
    clone = model.clone()
    assert clone._get_params() == model._get_params()
    assert clone._model.learner.n_events == 0
    again = [of_river(kind.__name__, None) for _ in range(2)]
    assert len({pickle.dumps(one._model.learner.state().header) for one in again}) == (
        1 if kind._model_name == "online-nystrom" else 2
    )


@every
def test_no_check_is_skipped(kind: Any) -> None:
    model = kind()
    assert model._unit_test_skips() == set()
    names = {check.__name__ for check in checks.yield_checks(model)}
    assert "check_learn_many_matches_learn_one" in names
    assert ("check_seeding_is_idempotent" in names) == ("seed" in model._get_params())


# Before anything is learned


@both
def test_predictions_before_learning() -> None:
    X = pd.DataFrame({"a": [1.0, 2.0]}, index=[7, 9])
    assert classifier().predict_proba_one({"a": 1.0}) == {}
    assert classifier().predict_one({"a": 1.0}) is None
    assert regressor().predict_one({"a": 1.0}) == 0.0
    probabilities = classifier().predict_proba_many(X)
    assert probabilities.shape == (2, 0)
    assert probabilities.index.tolist() == [7, 9]
    assert classifier().predict_many(X).tolist() == [None, None]
    assert regressor().predict_many(X).tolist() == [0.0, 0.0]


@both
def test_booleans_are_two_classes_from_the_first_label_on() -> None:
    model = classifier()
    model.learn_one({"a": 1.0}, np.bool_(True))
    probabilities = model.predict_proba_one({"a": 1.0})
    assert list(probabilities) == [False, True]
    assert 0.5 < probabilities[True] < 1.0
    assert model.predict_one({"a": 1.0}) is True


@both
def test_a_model_can_begin_with_empty_events() -> None:
    for model, y in ((classifier(), True), (regressor(), 2.0)):
        model.learn_one({}, y)
        model.predict_one({})
        model.learn_one({"a": 1.0}, y)
        model.learn_one({"b": 1.0, "a": 1.0}, y)
        assert model.predict_one({"a": 1.0}) == pytest.approx(y)


# Columns and values


@both
def test_an_absent_column_is_zero_whenever_it_comes() -> None:
    full, sparse = classifier(), classifier()
    # Of many kernels some are of a few columns, and those of a new column are new themselves.
    tolerance = 1e-5 if SMALL is ONE else 0.08
    rng = random.Random(0)
    for x, y in phishing(100):
        event = {name: value for name, value in x.items() if rng.random() < 0.5}
        full.learn_one({**dict.fromkeys(x, 0.0), **event}, y)
        sparse.learn_one(event, y)
    for x, _ in phishing(100):
        assert full.predict_proba_one(x)[True] == pytest.approx(
            sparse.predict_proba_one(x)[True], abs=tolerance
        )


@both
def test_a_column_that_was_not_learned_is_passed_over() -> None:
    model = learned(classifier(), phishing())
    x, _ = next(phishing())
    before = pickle.dumps(model)
    assert model.predict_proba_one({**x, "new": 1e9, "text": "new"}) == model.predict_proba_one(x)
    assert pickle.dumps(model) == before


def test_every_kind_of_number_is_the_same() -> None:
    kinds: list[Any] = [1, 1.0, True, np.float32(1), np.int64(1), np.bool_(True)]
    models = [classifier() for _ in kinds]
    for model, one in zip(models, kinds, strict=True):
        model.learn_one({"a": one, "b": 2}, True)
        model.learn_one({"a": 0, "b": one}, False)
    probabilities = [
        model.predict_proba_one({"a": one, "b": one})
        for model, one in zip(models, kinds, strict=True)
    ]
    assert all(p == probabilities[0] for p in probabilities)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_of_numpy_are_their_seconds(unit: str) -> None:
    def events(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
        span = np.timedelta64(n, "s").astype(f"timedelta64[{unit}]")
        return {"a": float(n), "b": 1.0}, {"a": span, "b": 1.0}

    model, other = classifier(), classifier()
    for n in range(5):
        number, span = events(n)
        model.learn_one(number, n > 1)
        other.learn_one(span, n > 1)
    number, span = events(3)
    for again in (other, pickle.loads(pickle.dumps(other))):
        assert again.predict_proba_one(span) == model.predict_proba_one(number)


def test_columns_are_named_by_numbers_and_tuples_too() -> None:
    model = classifier()
    for i in range(8):
        model.learn_one({0: i, np.int64(1): 1.0, ("a", "b"): i % 2, "c": 1}, i % 2 == 0)
    assert model._model.learner.columns == (0, 1, "('a', 'b')", "c")
    again = pickle.loads(pickle.dumps(model))
    x = {0: 3, 1: 1.0, ("a", "b"): 1, "c": 1}
    assert again.predict_proba_one(x) == model.predict_proba_one(x)
    again.learn_one(x, False)
    model.learn_one(x, False)
    assert again.predict_proba_one(x) == model.predict_proba_one(x)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ({"a": 1.0, "raw": b"x"}, "'raw'"),
        ({"a": 1.0, "many": [[1, 2]]}, "'many'"),
        ({"a": 1.0, "b": math.inf}, "inf"),
        ({"a": "x", "a=x": 1.0}, "'a=x'"),
        ({1.5: 1.0}, "1.5"),
        ({-1: 1.0}, "-1"),
        ({None: 1.0, 3: 1.0}, "None"),
        ({"a": 10**500, "b": 1.0}, "'a' is 1000"),
        ({"a": 1e300, "b": 1.0}, "'a' is 1e.*past 1e"),
        ({("c", "d"): 1.0, "('c', 'd')": 1.0}, "twice"),
    ],
)
def test_a_bad_event_is_named_and_not_learned(x: Event, said: str) -> None:
    model = learned(classifier(), [({"a": 1.0, "b": 1.0}, True), ({"a": 2.0, "b": 1.0}, False)])
    before = model.predict_proba_one({"a": 1.0, "b": 2.0})
    with pytest.raises(InvalidInput, match=said):
        model.learn_one(x, True)
    assert model.predict_proba_one({"a": 1.0, "b": 2.0}) == before


def test_a_bad_label_or_option_is_named() -> None:
    with pytest.raises(InvalidInput, match="label"):
        classifier().learn_one({"a": 1.0}, 1.5)
    with pytest.raises(InvalidInput, match="label"):
        regressor().learn_one({"a": 1.0}, "high")
    with pytest.raises(InvalidInput, match="label is beyond the range"):
        regressor().learn_one({"a": 1.0}, 10**400)
    with pytest.raises(InvalidInput, match="gausian"):
        DoublyStochasticClassifier(kernel="gausian")
    with pytest.raises(InvalidInput, match="hinge"):
        DoublyStochasticRegressor(loss="hinge")
    with pytest.raises(InvalidInput, match="seed=-1"):
        KernelClassifier(seed=-1)


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
@pytest.mark.parametrize(
    "option", [{"kernel": "rbf"}, {"step": 0.5}, {"max_features": 256}], ids=str
)
def test_an_option_of_one_kernel_leads_to_its_estimator(
    estimator: Any, option: dict[str, Any]
) -> None:
    (name,) = option
    other = estimator.__name__.replace("Kernel", "DoublyStochastic")
    with pytest.raises(InvalidInput, match=f"has no option {name}=.* is {other}"):
        estimator(**option)


@pytest.mark.parametrize(
    "estimator",
    [DoublyStochasticClassifier, NystromRegressor, StreamingMekaClassifier],
)
def test_gamma_is_a_bandwidth(estimator: Any) -> None:
    with pytest.raises(InvalidInput, match=r"gamma=2\.0: give bandwidth=1/sqrt\(2\*gamma\)"):
        estimator(gamma=2.0)
    with pytest.raises(TypeError, match="bandwith"):
        estimator(bandwith=2.0)


@pytest.mark.parametrize(
    "estimator",
    [
        DoublyStochasticClassifier,
        EigenProRegressor,
        FeatureMachineClassifier,
        KernelRidgeClassifier,
        NystromRegressor,
        StreamingMekaClassifier,
    ],
)
def test_a_kernel_has_its_own_bandwidth(estimator: Any) -> None:
    kernel = Matern(nu=0.5, bandwidth=3.0)
    with pytest.raises(InvalidInput, match=r"leave out bandwidth: kernel=Matern\(bandwidth=3\.0"):
        estimator(kernel=kernel, bandwidth=0.25)
    for options in ({}, {"bandwidth": estimator().bandwidth}):
        made: Any = estimator(kernel=kernel, **options)
        assert made._model.learner.learner.kernel == kernel


def test_a_linear_kernel_has_no_bandwidth() -> None:
    assert DoublyStochasticRegressor(kernel="linear").kernel == "linear"
    with pytest.raises(InvalidInput, match="'linear' takes no bandwidth, which is for gaussian"):
        DoublyStochasticRegressor(kernel="linear", bandwidth=0.25)


def test_what_is_shown_are_the_options_in_use() -> None:
    assert repr(KernelClassifier()) == "KernelClassifier()"
    assert repr(KernelRegressor(loss="huber", seed=1)) == "KernelRegressor(loss='huber', seed=1)"
    assert repr(NystromClassifier(max_landmarks=8)) == "NystromClassifier(max_landmarks=8)"
    model = DoublyStochasticRegressor(kernel=Matern(nu=2.5), step=0.5)
    assert repr(model) == (
        "DoublyStochasticRegressor(kernel=Matern(bandwidth=1.0, nu=2.5), step=0.5)"
    )


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
@pytest.mark.parametrize("columns", [1, 8, 50])
def test_a_model_begins_with_two_megabytes_at_most(estimator: Any, columns: int) -> None:
    model = estimator(seed=1)
    for n in range(5):
        model.learn_one({f"c{k}": n % (k + 2) for k in range(columns)}, n % 2)
        assert model._raw_memory_usage <= 2 << 20
        assert len(pickle.dumps(model)) <= 2 << 20


# Mini-batches


def test_frames_of_a_regression() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (600, 2)))
    y = pd.Series(X[0] * X[1], name="product")
    model = regressor(batch_size=8, max_features=1024, block_size=1024)
    model.learn_many(X[:500], y[:500])
    predicted = model.predict_many(X[500:])
    assert predicted.name == "product"
    assert predicted.index.equals(X.index[500:])
    assert (predicted - y[500:]).abs().mean() < 0.1
    assert model.predict_one(X.loc[500].to_dict()) == predicted.loc[500]


def test_a_frame_must_fit_its_labels() -> None:
    with pytest.raises(InvalidInput, match="2 events came with 1 labels"):
        classifier().learn_many(pd.DataFrame({"a": [1, 2]}), pd.Series([True]))


def test_an_empty_frame_changes_nothing() -> None:
    model = learned(classifier(), phishing(10))
    X = pd.DataFrame([x for x, _ in phishing(10)])[:0]
    before = pickle.dumps(model)
    model.learn_many(X, pd.Series([], dtype=bool))
    assert pickle.dumps(model) == before
    assert len(model.predict_many(X)) == len(model.predict_proba_many(X)) == 0


# Copies


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_guests_join_the_experts(estimator: Any) -> None:
    numbers = estimator is KernelRegressor
    loss = "squared" if numbers else "softmax"
    guest = OnlineNystrom(Gaussian(bandwidth=0.5), loss=loss, max_landmarks=8)
    model = estimator(seed=1, external_experts=[guest])
    for n in range(40):
        x = {"a": n % 5, "b": n % 7}
        model.learn_one(x, float(n % 5) if numbers else n % 5 > 2)
    assert "online-nystrom" in model.debug_one(x)
    assert guest.n_events == 0
    assert model.clone().external_experts[0].state().header == guest.state().header


# River's tools


def test_progressive_validation_with_delay() -> None:
    data = datasets.Phishing()
    at_once = evaluate.progressive_val_score(data.take(600), classifier(), metrics.LogLoss())
    assert at_once.get() < 0.45
    stamped = [({**x, "t": dt.datetime(2024, 1, 1) + dt.timedelta(minutes=i)}, y)
               for i, (x, y) in enumerate(data.take(600))]  # fmt: skip
    model = compose.Discard("t") | classifier()
    delayed = evaluate.progressive_val_score(
        iter(stamped), model, metrics.LogLoss(), moment="t", delay=dt.timedelta(minutes=20)
    )
    assert 0.9 * at_once.get() < delayed.get() < 0.6


def test_pipelines() -> None:
    model = (
        (compose.Select("c") | preprocessing.OneHotEncoder())
        + (compose.Select("n") | preprocessing.StandardScaler())
    ) | classifier()
    for i in range(200):
        model.learn_one({"c": "xyz"[i % 3], "n": float(i % 5)}, i % 3 == 0)
    assert model.predict_one({"c": "x", "n": 1.0}) is True
    assert model.predict_one({"c": "y", "n": 1.0}) is False
    report = model.debug_one({"c": "x", "n": 1.0})
    assert type(classifier()).__name__ in report
    assert "True: " in report
    assert type(classifier()).__name__ in repr(model)
    assert type(classifier()).__name__ in model._repr_html_()


@pytest.mark.parametrize(
    "wrap",
    [
        multiclass.OneVsRestClassifier,
        lambda model: ensemble.ADWINBaggingClassifier(model, n_models=2, seed=1),
        lambda model: model_selection.SuccessiveHalvingClassifier(
            [model.clone({"bandwidth": b}) for b in (0.3, 0.5, 1.0, 5.0)],
            metrics.Accuracy(),
            budget=1000,
        ),
    ],
)
def test_classifiers_around_it(wrap: Any) -> None:
    data = datasets.ImageSegments().take(500)
    assert evaluate.progressive_val_score(data, wrap(classifier()), metrics.Accuracy()).get() > 0.6


@pytest.mark.parametrize("x", [[1.0, 2.0], None, "text", np.ones(2), 3])
def test_an_event_that_is_no_dict_is_refused(x: Any) -> None:
    model = KernelClassifier(seed=1)
    model.learn_one({"a": 1.0, "b": 2.0}, "up")
    for use in (model.predict_one, model.debug_one, lambda x: model.learn_one(x, "up")):
        with pytest.raises(InvalidInput, match="an event must be a dict of columns, not"):
            use(x)


def test_a_loss_that_is_none_of_numbers_is_answered_with_those_that_are() -> None:
    with pytest.raises(InvalidInput, match="choose squared, huber, quantile"):
        KernelRegressor(loss="mae")
