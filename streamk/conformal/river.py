"""Adaptive conformal intervals and prediction sets about any of River's models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base, conf

from streamk.adapters.options import estimator
from streamk.adapters.river import InTurns
from streamk.conformal import AdaptiveIntervals, AdaptiveSets, Regions, Said
from streamk.options import Option, Real

__all__ = ["ConformalClassifier", "ConformalRegressor"]

Event = dict[base.typing.FeatureName, Any]


def _learn(regions: Regions, said: Said, y: Any) -> None:
    """Learn a label of an event that would be given the threshold of now."""
    regions.learn(said, [y], regions.thresholds(1), [0])


def _number(value: Any) -> float:
    """Return a finite number, else NaN: of a model that has diverged, or says nothing yet."""
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


_LEVEL = Real(default=0.9, doc="Share of labels that the regions hold, above 0 and at most 0.99.")
_REGRESSOR = Option(type="river.base.Regressor")
_CLASSIFIER = Option(type="river.base.Classifier", doc="It has `predict_proba_one`.")


@estimator(
    {"regressor": _REGRESSOR, "confidence_level": _LEVEL},
    by_place=("regressor", "confidence_level"),
)
class ConformalRegressor(InTurns, base.Wrapper[base.Regressor], base.Regressor):
    """A River regressor with prediction intervals whose coverage follows the level asked for.

    Nine in ten of the numbers to come lie in their interval, where `confidence_level` is 0.9,
    through drift, too: what was missed moves the level of the intervals to come (adaptive conformal
    inference, Gibbs and Candès 2021; see `streamk.conformal`). It is used as River's
    `conf.RegressionJackknife`.

    Errors are those of the regressor as it is when the number comes, just before it learns. About a
    prediction that is NaN or infinite, as of a model that has diverged, an interval has no bounds,
    and there is no error to learn.

    Raises
    ------
    InvalidInput
        If `confidence_level` is out of its domain.

    References
    ----------
    Gibbs and Candès 2021, Adaptive conformal inference under distribution shift, NeurIPS.

    Examples
    --------
    >>> from river import datasets, stats
    >>> from streamk.adapters.river import ConformalRegressor, KernelRegressor
    >>> model = ConformalRegressor(KernelRegressor(seed=1))
    >>> held = stats.Mean()
    >>> for x, y in datasets.ChickWeights():
    ...     held.update(y in model.predict_one(x, with_interval=True))
    ...     model.learn_one(x, y)
    >>> print(f"{held.get():.2f}")
    0.90
    """

    regressor: base.Regressor
    confidence_level: float

    def _begin(self) -> None:
        super()._begin()
        self._intervals = AdaptiveIntervals(self.confidence_level)

    @property
    def _wrapped_model(self) -> base.Regressor:
        return self.regressor

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"regressor": preprocessing.StandardScaler() | linear_model.LinearRegression()}

    def learn_one(self, x: Event, y: base.typing.RegTarget, **kwargs: Any) -> None:
        """Learn an event, with the error of the regressor as it was before."""
        with self._turns.lock:
            said = Said(np.array([_number(self.regressor.predict_one(x))]))
            self.regressor.learn_one(x, y, **kwargs)  # if it refuses, nothing is learned
            _learn(self._intervals, said, _number(y))

    def predict_one(self, x: Event, with_interval: bool = False, **kwargs: Any) -> Any:
        """Predict the number of an event.

        Parameters
        ----------
        x : dict
        with_interval : bool, default False

        Returns
        -------
        float, or river.conf.Interval
            The interval is without bounds before the first event is learned, and where the
            regressor predicts None, NaN or an infinite number.
        """
        with self._turns.lock:
            found = self.regressor.predict_one(x, **kwargs)
            if not with_interval:
                return found
            said = Said(np.array([_number(found)]))
            (bounds,) = self._intervals.regions(said, self._intervals.thresholds(1))
        lower, upper = bounds or (-math.inf, math.inf)
        return conf.Interval(lower=lower, upper=upper)


@estimator(
    {"classifier": _CLASSIFIER, "confidence_level": _LEVEL},
    by_place=("classifier", "confidence_level"),
)
class ConformalClassifier(InTurns, base.Wrapper[base.Classifier], base.Classifier):
    """A classifier of River with prediction sets: as few classes as hold most labels.

    Nine in ten of the labels to come are in their set, where `confidence_level` is 0.9, as
    `ConformalRegressor` does for numbers. A set has the class that the classifier predicts, however
    it decides, so it is never empty once a class is known, and where the predicted class alone is
    right more often than that, sets hold more. Where a probability is NaN or infinite, as of a
    model that has diverged, a set has all classes, and nothing is learned of it.

    Raises
    ------
    InvalidInput
        If `confidence_level` is out of its domain.

    References
    ----------
    Gibbs and Candès 2021, Adaptive conformal inference under distribution shift, NeurIPS.
    Sadinle, Lei and Wasserman 2019, Least ambiguous set-valued classifiers with bounded error
    levels, JASA.

    Examples
    --------
    >>> from river import datasets, stats
    >>> from streamk.adapters.river import ConformalClassifier, KernelClassifier
    >>> model = ConformalClassifier(KernelClassifier(seed=1))
    >>> held = stats.Mean()
    >>> for x, y in datasets.ImageSegments().take(1000):
    ...     held.update(y in model.predict_set_one(x))
    ...     model.learn_one(x, y)
    >>> bool(held.get() > 0.9)
    True
    """

    classifier: base.Classifier
    confidence_level: float

    def _begin(self) -> None:
        super()._begin()
        self._sets = AdaptiveSets(self.confidence_level)

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @property
    def _multiclass(self) -> bool:
        return bool(self.classifier._multiclass)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression()}

    def learn_one(self, x: Event, y: base.typing.ClfTarget, **kwargs: Any) -> None:
        """Learn an event, with how well its label was predicted before."""
        with self._turns.lock:
            said = self._said(x)
            self.classifier.learn_one(x, y, **kwargs)  # if it refuses, nothing is learned
            if said.probabilities is not None:
                _learn(self._sets, said, y)

    def predict_proba_one(self, x: Event, **kwargs: Any) -> dict[base.typing.ClfTarget, float]:
        """Predict the probabilities of the classes of an event, by label."""
        with self._turns.lock:
            return self.classifier.predict_proba_one(x, **kwargs)

    def predict_one(self, x: Event, **kwargs: Any) -> base.typing.ClfTarget | None:
        """Predict the class of an event; None before the first class is known."""
        with self._turns.lock:
            return self.classifier.predict_one(x, **kwargs)

    def predict_set_one(self, x: Event, **kwargs: Any) -> list[base.typing.ClfTarget]:
        """Predict a set of classes that holds the event's class, the most probable first.

        All known classes before the first label of an event for which one was known.
        """
        with self._turns.lock:
            said = self._said(x, **kwargs)
            if said.probabilities is None:
                return list(said.classes)
            (found,) = self._sets.regions(said, self._sets.thresholds(1))
        assert found is not None
        return found

    def _said(self, x: Event, **kwargs: Any) -> Said:
        """Return what the classifier says, without probabilities where these are not usable."""
        found = {
            label: _number(p) for label, p in self.classifier.predict_proba_one(x, **kwargs).items()
        }
        known = bool(found) and not any(map(math.isnan, found.values()))
        answers = np.empty(1, object)
        answers[0] = answer = self.classifier.predict_one(x, **kwargs)
        if answer is not None:
            found.setdefault(answer, math.nan)  # a class that there is no probability of
        elif known:
            answers[0] = max(found, key=lambda label: found[label])
        P = np.array([[*found.values()]])
        return Said(answers, P if known else None, tuple(found))
