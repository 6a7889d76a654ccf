"""What holds of every scikit-learn estimator: scikit-learn's own checks, copies, seeds, options."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamk.adapters import sklearn
from streamk.errors import InvalidInput
from streamk.kernels import Gaussian, Matern
from streamk.learners import AdaGrad

FAMILIES = [
    sklearn.KernelClassifier(),
    sklearn.KernelRegressor(),
    sklearn.DoublyStochasticClassifier(),
    sklearn.NystromRegressor(),
    sklearn.EigenProClassifier(n_centers=50),
    sklearn.BlockSVC(),
    sklearn.BlockRidge(alpha=0.1),
    sklearn.MekaRidge(alpha=0.1, rank=16),
    sklearn.MekaClassifier(rank=16),
    sklearn.OasisNystroem(),
    sklearn.DCPredClassifier(iterations=20),
    sklearn.DCPredRegressor(iterations=20, budget=20),
    sklearn.KernelRegression(),
]
"""One of each family is checked at once, all of them nightly."""
VARIANTS = [
    sklearn.EigenProRegressor(n_centers=50, batch_size=16, solver="eigenpro"),
    sklearn.KernelRidgeClassifier(),
    sklearn.KernelRidgeRegressor(max_centers=64),
    sklearn.FeatureMachineClassifier(first=64, every=100, swap_delay=32),
    sklearn.FeatureMachineRegressor(kernel="laplacian", buffer_size=64, first=64, swap_delay=32),
    sklearn.KernelClassifier(class_weight="balanced"),
    sklearn.KernelRegressor(loss="quantile"),
    sklearn.DoublyStochasticRegressor(),
    sklearn.DoublyStochasticClassifier(loss="logistic", kernel="laplacian", batch_size=1),
    sklearn.DoublyStochasticClassifier(
        loss="squared_hinge", kernel=Matern(nu=2.5), max_features=4096
    ),
    sklearn.DoublyStochasticRegressor(loss="huber", step=AdaGrad(3.0), sampler="hadamard"),
    sklearn.NystromClassifier(),
    sklearn.NystromClassifier(loss="hinge", optimizer="sgd", kernel="laplacian", max_landmarks=64),
    sklearn.BlockSVC(n_clusters=4, class_weight="balanced", n_jobs=2),
    sklearn.BlockSVC(kernel=Matern(nu=1.5), C=10.0, n_clusters=2),
    sklearn.BlockRidge(kernel="laplacian", n_clusters=3, alpha=0.1),
    sklearn.MekaRidge(kernel="laplacian", alpha=0.1, rank=8, n_clusters=3, solver="minres"),
    sklearn.MekaClassifier(alpha=0.1, rank=8, n_clusters=3),
    sklearn.MekaClassifier(bandwidth=50.0, rank=16, class_weight="balanced"),
    sklearn.UniformNystroem(),
    sklearn.KMeansNystroem(),
    sklearn.LeverageNystroem(),
    sklearn.RPCholeskyNystroem(),
    sklearn.OasisNystroem(kernel="laplacian", tol=1e-3, n_init=3),
    sklearn.RPCholeskyNystroem(kernel=Matern(nu=2.5), block_size=1, n_components=5),
    sklearn.UniformNystroem(kernel="linear"),
    sklearn.OasisNystroem(kernel="precomputed"),
]


def not_promised(estimator: Any) -> dict[str, str]:
    """Checks that ask for what an estimator does not promise, and why."""
    if isinstance(estimator, sklearn.MekaClassifier) and estimator.bandwidth is None:
        return {"check_class_weight_classifiers": "points far from all others are predicted 0"}
    if getattr(estimator, "kernel", None) != "precomputed":
        return {}
    return {
        "check_positive_only_tag_during_fit": "a kernel matrix less its mean is not definite",
        "check_estimators_dtypes": "one rounded to single precision is not, in double precision",
    }


@pytest.mark.one_in(3)
@parametrize_with_checks(FAMILIES, expected_failed_checks=not_promised)
def test_sklearn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(VARIANTS, expected_failed_checks=not_promised)
def test_sklearn_checks_of_variants(estimator: Any, check: Any) -> None:
    check(estimator)


SMALL: dict[str, Any] = {
    "batch_size": 32,
    "budget": 5,
    "external_experts": [],
    "iterations": 5,
    "n_centers": 20,
    "n_clusters": 4,
    "n_components": 10,
    "n_epochs": 1,
    "n_parts": 3,
    "rank": 16,
    "rounds": 1,
}
"""Options by which fits are short."""
ALL = [getattr(sklearn, name) for name in sklearn.__all__]
every = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)


def having(option: str) -> Any:
    """Run a test with each estimator that has an option."""
    kinds = [kind for kind in ALL if option in kind().get_params()]
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.__name__)


def moons(n: int = 150) -> Any:
    return make_moons(n, noise=0.2, random_state=0)


def made(kind: Any, **options: Any) -> Any:
    known = kind().get_params()
    small = {name: value for name, value in SMALL.items() if name in known}
    return kind(**{"random_state": 0, **small, **options})


def found(model: Any, X: Any) -> Any:
    """What a model says of points, as finely as it does."""
    for name in ("transform", "predict_proba", "decision_function", "predict"):
        if hasattr(model, name):
            return getattr(model, name)(X)
    raise AssertionError


@every
def test_a_copy_says_the_same(kind: Any) -> None:
    X, y = moons()
    model = made(kind).fit(X, y)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(found(copied, X), found(model, X))
        assert clone(copied).get_params() == model.get_params()


@every
def test_the_random_state_decides(kind: Any) -> None:
    X, y = moons()
    options = {"n_clusters": 30} if kind is sklearn.BlockSVC else {}  # few are the same by any seed

    def fit(random_state: Any) -> Any:
        return found(made(kind, random_state=random_state, **options).fit(X, y), X)

    one = fit(1)
    assert np.array_equal(fit(1), one)
    assert np.array_equal(fit(np.random.RandomState(1)), one)
    # Some draw a single number of few: two fits may be equal, not five.
    assert any(not np.array_equal(fit(other), one) for other in (2, 3, 4, None))


@having("n_jobs")
def test_threads_change_nothing(kind: Any) -> None:
    X, y = moons()
    one, two = (found(made(kind, n_jobs=n).fit(X, y), X) for n in (None, 2))
    assert np.array_equal(one, two)


@every
def test_a_notebook_shows_the_options_in_use(kind: Any) -> None:
    model = made(kind)
    shown = model._repr_html_()
    assert all(name in shown for name in model.get_params())
    assert kind.__name__ in repr(model)


@every
def test_one_that_is_not_fitted_says_so(kind: Any) -> None:
    with pytest.raises(NotFittedError):
        found(made(kind), moons()[0])


@having("gamma")
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kernel": "gausian"}, "gausian"),
        ({"kernel": "matern", "gamma": 1.0}, "gamma"),
        ({"gamma": 1.0, "bandwidth": 1.0}, "not both"),
        ({"kernel": Gaussian(), "bandwidth": 1.0}, "leave out bandwidth"),
        ({"kernel": 3}, "kernel=3"),
    ],
)
def test_a_kernel_that_cannot_be_is_named(kind: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        made(kind, **options).fit(*moons(50))
