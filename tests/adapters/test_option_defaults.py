"""Options of estimators have the defaults of their learners."""

from __future__ import annotations

import inspect

import pytest

from streamk.adapters import river, sklearn
from streamk.learners import FeatureMachine


@pytest.mark.parametrize(
    "estimator",
    [
        river.FeatureMachineClassifier,
        river.FeatureMachineRegressor,
        sklearn.FeatureMachineClassifier,
        sklearn.FeatureMachineRegressor,
    ],
)
def test_a_feature_machine_is_that_of_the_learner(estimator: type) -> None:
    known = inspect.signature(FeatureMachine).parameters
    ours = inspect.signature(estimator).parameters
    both = (known.keys() & ours.keys()) - {"seed"}
    assert len(both) > 6
    assert {name: ours[name].default for name in both} == {
        name: known[name].default for name in both
    }
