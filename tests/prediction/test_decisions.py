"""A compiled copy decides as its model does, in every form, or the model is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forms_kit import forms
from hypothesis import given, settings
from hypothesis import strategies as st

from streamk.errors import InvalidInput
from streamk.learners import create
from streamk.prediction import compile as compiled
from streamk.prediction.teachers import agreement, weights_of

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")
pd = pytest.importorskip("pandas", reason="River's models take events by name")

LEARNED, PREDICTED = 1500, 2_000
NAMES = ["a", "b", "c"]


def stream() -> tuple[Any, Any]:
    """Events and a number of each, of which labels are made."""
    random = np.random.default_rng(0)
    X = random.normal(size=(LEARNED + PREDICTED, 3))
    return X, X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.4 * random.normal(size=len(X))


def seldom(signal: Any) -> Any:
    """Two classes of which one is rare, so that a decision by probability is never for it."""
    return np.where(signal > 2.0, "fraud", "none")


def many(signal: Any) -> Any:
    """Three classes, two of them rare."""
    return np.digitize(signal, [-1.7, 1.7])


def flags(signal: Any) -> Any:
    return signal > 1.5


def fixed(inner: Any = None, **options: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import FixedThresholdClassifier

    options = {"threshold": 0.1, "pos_label": "fraud", **options}
    return FixedThresholdClassifier(inner or LogisticRegression(), **options)


def tuned() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import TunedThresholdClassifierCV

    return TunedThresholdClassifierCV(LogisticRegression(), scoring="balanced_accuracy")


def calibrated() -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import LinearSVC

    return fixed(CalibratedClassifierCV(LinearSVC()))


def in_a_pipeline() -> Any:
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), fixed(GaussianNB(), threshold=0.2))


def one_against_the_rest() -> Any:
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(fixed(pos_label=None))


def svm() -> Any:
    from sklearn.svm import SVC

    return SVC(class_weight="balanced")


def ours(**options: Any) -> Any:
    options = {"external_experts": (), "seed": 1, **options}
    return create("multi-kernel", task="classification", **options)


def adapter(name: str, **options: Any) -> Any:
    from streamk.adapters import river, sklearn

    if name == "river":
        return river.KernelClassifier(seed=1, external_experts=(), **options)
    return sklearn.KernelClassifier(random_state=1, external_experts=(), **options)


class Costly:
    """A model of scikit-learn's kind that weighs its classes when it predicts."""

    def __init__(self) -> None:
        from sklearn.linear_model import LogisticRegression

        self.inner = LogisticRegression()

    def fit(self, X: Any, y: Any) -> Any:
        self.inner.fit(X, y)
        self.classes_ = self.inner.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.inner.predict_proba(X)

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.predict_proba(X) * [5.0, 1.0, 8.0]).argmax(axis=1)]


def of_river(kind: str) -> Any:
    from river import linear_model, naive_bayes, preprocessing

    if kind == "pipeline":
        return preprocessing.StandardScaler() | linear_model.LogisticRegression()
    return naive_bayes.GaussianNB()


MODELS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "a threshold": (fixed, seldom),
    "a high threshold": (lambda: fixed(threshold=0.8), seldom),
    "a tuned threshold": (tuned, seldom),
    "calibrated": (calibrated, seldom),
    "a pipeline": (in_a_pipeline, seldom),
    "one against the rest": (one_against_the_rest, many),
    "no probabilities": (svm, seldom),
    "weights when it predicts": (Costly, many),
    "balanced": (lambda: ours(class_weight="balanced"), seldom),
    "weights": (lambda: ours(class_weight={"fraud": 12.0}), seldom),
    "weights of several classes": (lambda: ours(class_weight={0: 3.0, 2: 4.0}), many),
    "an estimator": (lambda: adapter("sklearn", class_weight="balanced"), seldom),
    "an estimator of River": (lambda: adapter("river", class_weight="balanced"), seldom),
    "River": (lambda: of_river("pipeline"), flags),
    "River's bayes": (lambda: of_river("bayes"), many),
}


def learn(model: Any, X: Any, y: Any) -> None:
    if hasattr(model, "fit"):
        model.fit(X, y)
    elif hasattr(model, "decision_many"):
        model.learn_many(X, y.tolist())
    else:
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            model.learn_one(dict(zip(NAMES, row, strict=True)), label)


def decisions(model: Any, X: Any) -> list[Any]:
    if hasattr(model, "predict"):
        return np.asarray(model.predict(X)).tolist()
    if hasattr(model, "decision_many"):
        return np.asarray(model.predict_many(X)).tolist()
    return [model.predict_one(dict(zip(NAMES, row, strict=True))) for row in X.tolist()]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", MODELS)
def test_a_copy_decides_as_its_model(kind: str, tmp_path: Path) -> None:
    make, labels = MODELS[kind]
    (X, signal), model = stream(), make()
    learn(model, X[:LEARNED], labels(signal)[:LEARNED])
    sample = X[:LEARNED]
    by_name = not hasattr(model, "predict") and not hasattr(model, "decision_many")
    fast = compiled(model, pd.DataFrame(sample, columns=NAMES) if by_name else sample, budget=5)
    expected = decisions(model, X[LEARNED:])
    assert len(set(expected)) > 1
    for form, found in forms(fast, X[LEARNED:], tmp_path).items():
        same = np.mean([one == other for one, other in zip(expected, found, strict=True)])
        assert same >= 0.97, form
        assert set(map(type, found)) == set(map(type, expected)), form


def test_its_probabilities_are_the_models() -> None:
    X, signal = stream()
    model = ours(class_weight={"fraud": 1e4})
    learn(model, X[:LEARNED], seldom(signal)[:LEARNED])
    fast = compiled(model, X[:LEARNED], budget=5)
    assert fast.classes == model.classes
    weights = dict(zip(fast.classes, fast.weights.tolist(), strict=True))
    assert weights == {"none": 1.0, "fraud": 1e4}
    P, expected = fast.predict_proba_many(X[:500]), model.predict_proba_many(X[:500])
    assert np.abs(P - expected).mean() < 0.02
    assert set(fast.predict_many(X[:500])) == {"fraud"}
    assert {fast.predict_one(x) for x in X[:5]} == {"fraud"}


def test_a_class_that_a_leaf_lacks_is_not_decided_on() -> None:
    """Rare classes of great weight have little mass in a leaf, or none."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (2000, 2))
    P = np.full((2000, 4), 1e-4)
    P[:, 0] = 1.0
    P[:, 1] = 1.0 + 0.8 * np.sin(3 * X[:, 0])
    P[:, 2] = np.where(X[:, 1] > 0.9, 0.01, 0.0)
    P /= P.sum(axis=1, keepdims=True)

    class Weighted:
        classes_ = np.arange(4)

        def predict_proba(self, X: Any) -> Any:
            return P

        def predict(self, X: Any) -> Any:
            return (P * [1.0, 1.0, 200.0, 200.0]).argmax(axis=1)

    fast = compiled(Weighted(), X, budget=5)
    expected = Weighted().predict(X)
    assert set(expected) == {0, 1, 2}
    found = fast.predict_many(X)
    assert np.mean(found == expected) > 0.97
    assert np.mean(found[expected == 2] == 2) > 0.6  # .71 to .94, by the seed
    assert not (found == 3).any()


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 8),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([0, 0.5, 2.0]),
    st.booleans(),
)
def test_weights_explain_decisions_by_weights(
    classes: int, seed: int, spread: float, size: float, coarse: bool
) -> None:
    random = np.random.default_rng(seed)
    P = random.dirichlet(np.full(classes, spread), 1000)
    if coarse:  # as a forest of ten trees has them
        P = np.round(P, 1)
    decided = (P * np.exp(size * random.normal(size=classes))).argmax(axis=1)
    weights = weights_of(P, decided)
    assert (np.isfinite(weights) & (weights > 0)).all()
    assert agreement(P, weights, decided) >= (1.0 if classes == 2 else 0.97)
    if not size:
        assert weights.tolist() == [1.0] * classes


@pytest.mark.parametrize("share", [0.0, 0.02])
@pytest.mark.parametrize("threshold", [1e-12, 0.01, 0.5, 0.97, 1 - 1e-12])
def test_a_threshold_lies_in_the_middle(threshold: float, share: float) -> None:
    """Between the probabilities nearest to it, also if a few decisions are otherwise."""
    random = np.random.default_rng(1)
    p = np.concatenate([threshold * random.random(500), 1 - (1 - threshold) * random.random(500)])
    decided = (p >= threshold).astype(int)
    decided[random.random(1000) < share] ^= 1
    w = weights_of(np.stack([1 - p, p], axis=1), decided)
    found = w[0] / (w[0] + w[1])
    low, high = np.sort(p[p < threshold])[-30:][0], np.sort(p[p >= threshold])[:30][-1]
    assert low < found < high


class Odd:
    """A model of two classes that decides in an odd way."""

    classes_ = np.array(["a", "b"])

    def __init__(self, decided: Any) -> None:
        self.decided = decided

    def predict_proba(self, X: Any) -> Any:
        return np.stack([X[:, 0], 1 - X[:, 0]], axis=1)

    def predict(self, X: Any) -> Any:
        return self.decided(X[:, 0])


@pytest.mark.parametrize(
    ("decided", "message"),
    [
        (
            lambda p: np.where(p < 0.2, "review", "a"),
            "predicts 'review', which is not one of its cl",
        ),
        (lambda p: np.where(abs(p - 0.5) < 0.1, "a", "b"), r"these explain (79|80)\.\d% of its"),
        (lambda p: np.stack([p > 0.1, p > 0.3], axis=1), "predicts 2 numbers or labels"),
    ],
)
def test_a_model_that_decides_otherwise_is_refused(decided: Any, message: str) -> None:
    X = np.random.default_rng(0).random((500, 2))
    with pytest.raises(InvalidInput, match=message):
        compiled(Odd(decided), X)


def test_clusters_and_outliers_are_classes() -> None:
    from sklearn.cluster import KMeans
    from sklearn.ensemble import IsolationForest
    from sklearn.mixture import GaussianMixture

    X = np.random.default_rng(0).normal(size=(600, 2))
    X[::3] += 5.0
    for model in (
        KMeans(3, random_state=0),
        IsolationForest(n_estimators=10, random_state=0),
        GaussianMixture(2),
    ):
        expected = model.fit(X).predict(X)
        fast = compiled(model, X, budget=5)
        assert fast.is_classifier
        assert (fast.predict_many(X) == expected).mean() > 0.95


def test_models_by_the_names_of_columns() -> None:
    from river import cluster, linear_model, preprocessing
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, signal = stream()
    frame = pd.DataFrame(X[:LEARNED], columns=NAMES)
    chosen = make_column_transformer((StandardScaler(), ["c", "a"]))
    named = make_pipeline(chosen, LinearRegression()).fit(frame, signal[:LEARNED])
    fast = compiled(named, frame, budget=3)
    assert fast.columns == ("a", "b", "c")
    assert np.mean((fast.predict_many(frame) - named.predict(frame)) ** 2) < 1e-3
    numbers = preprocessing.StandardScaler() | linear_model.LinearRegression()
    clusters = cluster.KMeans(n_clusters=2, seed=1)
    for x, y in zip(frame.to_dict("records"), signal.tolist(), strict=False):
        numbers.learn_one(x, y)
        clusters.learn_one(x)
    fast = compiled(numbers, frame, budget=3)
    expected = np.array([numbers.predict_one(x) for x in frame.to_dict("records")])
    assert fast.columns == ("a", "b", "c")
    assert np.mean((fast.predict_many(frame) - expected) ** 2) < 1e-2 * expected.var()
    assert compiled(clusters, frame, budget=3).is_classifier
    with pytest.raises(InvalidInput, match="give X_sample as a data frame"):
        compiled(numbers, X[:LEARNED])


def test_whole_numbers_of_a_regressor_of_river_are_no_classes() -> None:
    from river import cluster, linear_model, multiclass, neighbors, preprocessing

    X = np.random.default_rng(0).integers(-9, 9, (150, 2)).astype(float)
    frame = pd.DataFrame(X, columns=["a", "b"])
    scaled = preprocessing.StandardScaler
    for kind, model in (
        ("regression", neighbors.KNNRegressor(n_neighbors=1)),
        ("regression", scaled() | neighbors.KNNRegressor(n_neighbors=1)),
        ("classification", scaled() | cluster.KMeans(n_clusters=2, seed=1)),
        ("classification", multiclass.OneVsOneClassifier(linear_model.LogisticRegression())),
    ):
        for x in frame.to_dict("records"):
            model.learn_one(x, int(x["a"]) // (1 if kind == "regression" else 9))
        assert {type(model.predict_one(x)) for x in frame.to_dict("records")} == {int}
        assert compiled(model, frame, budget=2).task == kind
