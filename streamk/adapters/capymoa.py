"""Models of many kernels as a classifier and a regressor of CapyMOA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

try:
    from capymoa import base
except ImportError as error:
    raise ImportError(
        f"streamk.adapters.capymoa needs CapyMOA ({error}): pip install capymoa, and Java"
    ) from error

from streamk.adapters import river
from streamk.adapters.options import MANY, estimator
from streamk.errors import InvalidInput
from streamk.options import Option

__all__ = ["KernelClassifier", "KernelRegressor"]


def _with_options(of: type) -> Callable[[type], type]:
    """Return a decorator that gives a learner the options of one of River."""
    options = dict(vars(of)["_options"])
    first = {
        "schema": Option(type="capymoa.stream.Schema", doc="Columns and classes of the stream."),
        "random_seed": replace(options.pop("seed"), default=1, doc="From 0 to 2^64 - 1."),
    }
    return estimator(first | options, advice=MANY, by_place=tuple(first))


class Instances:
    """A learner of CapyMOA's instances.

    They are learned and predicted as the dicts that River's estimator of the same name takes, to
    the bit: a number as it is, a nominal value as its text (which may read as a number), and NaN as
    missing. An instance without a label is passed over in training.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, or the schema is of another task. `train` and the methods
        that predict raise it if a value is not usable, or is not in the schema.
    """

    schema: Any
    random_seed: int
    _options: ClassVar[dict[str, Option]]
    _task: ClassVar[str]
    _river: ClassVar[type[river.Estimator]]

    def _begin(self) -> None:
        schema = self.schema
        if getattr(schema, "is_regression", lambda: None)() != (self._task == "regression"):
            raise InvalidInput(
                f"{type(self).__name__} needs a schema for {self._task}, not {schema!r}"
            )
        start: Any = super().__init__
        start(schema=schema, random_seed=self.random_seed)
        self._model: Any = self._river(seed=self.random_seed, **self.get_params())
        header, nominal = schema.get_moa_header(), schema.get_nominal_attributes()
        fields = [header.attribute(i) for i in range(header.numAttributes())]
        del fields[header.classIndex()]
        self._names = [str(field.name()) for field in fields]
        if len({*self._names}) < len(self._names):
            raise InvalidInput(f"two attributes of the schema have the same name: {self._names}")
        self._nominal = {name: nominal[name] for name in self._names if name in nominal}

    def get_params(self) -> dict[str, Any]:
        """Return all options, those at their defaults too, but for schema and seed."""
        own = ("schema", "random_seed")
        return {name: getattr(self, name) for name in self._options if name not in own}

    def _event(self, instance: Any) -> dict[str, Any]:
        event: dict[str, Any] = dict(zip(self._names, instance.x.tolist(), strict=True))
        for name, texts in self._nominal.items():
            value = event[name]
            if value == value and not 0 <= value < len(texts):
                raise InvalidInput(f"attribute {name!r} has no value number {value:g}: {texts}")
            event[name] = texts[int(value)] if value == value else None
        return event


@_with_options(river.KernelClassifier)
class KernelClassifier(Instances, base.Classifier):  # type: ignore[misc]
    """Kernel classification of a stream, as `streamk.adapters.river.KernelClassifier`.

    Labels are the schema's, as texts.

    Examples
    --------
    >>> from capymoa.evaluation import prequential_evaluation
    >>> from capymoa.stream.generator import SEA
    >>> from streamk.adapters.capymoa import KernelClassifier
    >>> stream = SEA(noise_percentage=0)
    >>> model = KernelClassifier(stream.get_schema(), random_seed=1)
    >>> prequential_evaluation(stream, model, max_instances=500).cumulative.accuracy() > 90
    True
    """

    _task, _river = "classification", river.KernelClassifier

    def train(self, instance: Any) -> None:
        """Learn from an instance."""
        label = instance.y_index
        if label < 0:
            return
        if not self.schema.is_y_index_in_range(label):
            raise InvalidInput(f"the schema has no class number {label}")
        self._model.learn_one(self._event(instance), instance.y_label)

    def predict_proba(self, instance: Any) -> NDArray[np.float64] | None:
        """Return the probability of each class, as the schema has them; None before the first."""
        found = self._model.predict_proba_one(self._event(instance))
        if not found:
            return None
        return np.array([found.get(label, 0.0) for label in self.schema.get_label_values()])

    def predict(self, instance: Any) -> int | None:
        """Return the number of the most probable class, or by `class_weight`; None before any."""
        label = self._model.predict_one(self._event(instance))
        return None if label is None else int(self.schema.get_index_for_label(label))


@_with_options(river.KernelRegressor)
class KernelRegressor(Instances, base.Regressor):  # type: ignore[misc]
    """Kernel regression on a stream, as `streamk.adapters.river.KernelRegressor`."""

    _task, _river = "regression", river.KernelRegressor

    def train(self, instance: Any) -> None:
        """Learn from an instance."""
        if instance.y_value == instance.y_value:
            self._model.learn_one(self._event(instance), float(instance.y_value))

    def predict(self, instance: Any) -> float:
        """Return the predicted number, 0 before anything is learned."""
        return float(self._model.predict_one(self._event(instance)))
