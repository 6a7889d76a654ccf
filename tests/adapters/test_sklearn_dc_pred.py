"""DC-Pred++ as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="estimators need scikit-learn: pip install scikit-learn")

from sklearn.base import clone

from streamk.adapters.sklearn import DCPredClassifier
from streamk.errors import InvalidInput


def data() -> Any:
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (600, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


def test_labels_come_back() -> None:
    X, y = data()
    model = DCPredClassifier(leaves=2, landmarks=6, random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["other", "same"]
    assert model.score(X, y) > 0.9
    assert (model.predict_proba(X).argmax(axis=1) == (model.decision_function(X) > 0)).all()
    again = clone(model).fit(X, y)
    assert np.array_equal(again.decision_function(X), model.decision_function(X))


def test_missing_values() -> None:
    X, y = data()
    X[::7, 0] = np.nan
    model = DCPredClassifier(leaves=2, landmarks=6, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("options", [{"leaves": 0}, {"budget": -1}, {"halo": None}, {"trees": 1.5}])
def test_options_out_of_their_domain(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        DCPredClassifier(**options).fit(*data())
