"""What learners have in common whose function is linear in coordinates that events give rise to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk import kernels
from streamk.declared import listed
from streamk.errors import InvalidInput
from streamk.features.columns import Column
from streamk.kernels import Kernel
from streamk.learners.common.classes import MOST_CLASSES, Classes, Label, classifies
from streamk.learners.common.optimizers import Newton, Optimizer, StochasticGradient
from streamk.learners.common.steps import AdaGrad, Constant, Step, step_from_json
from streamk.learners.common.supervised import Asked, Supervised
from streamk.losses import Loss
from streamk.losses import loss as loss_by_name

Matrix = NDArray[np.float64]

OPTIMIZERS = ("sgd", "newton")
RIDGE = 0.1
"""Default regularization of Newton steps."""
IN_COMMON = ("kernel", "loss", "is_classifier", "step", "optimizer", "regularization", "forgetting")
"""What learners must have in common to be merged, beside their own options."""


class OnEmbeddedFeatures(Supervised):
    """A learner by gradient or Newton steps in coordinates; its options are `OnlineNystrom`'s."""

    dtype: np.dtype[Any] = np.dtype(np.float64)
    """Of events and coefficients."""
    n_events: int

    def __init__(
        self,
        kernel: Kernel,
        *,
        loss: str | Loss,
        task: str | None,
        optimizer: str,
        step: Step | None,
        regularization: float | None,
        forgetting: float,
        classes: Sequence[Label],
        max_classes: int,
    ) -> None:
        self.loss = loss_by_name(loss) if isinstance(loss, str) else loss
        self.kernel = kernel
        for name, kind in (("kernel", Kernel), ("loss", Loss)):
            if not isinstance(getattr(self, name), kind):
                raise InvalidInput(
                    f"{name}={getattr(self, name)!r} must be a streamk {kind.__name__}"
                )
        self.is_classifier = classifies(self.loss, task)
        self._choose(optimizer, step, regularization, forgetting)
        if classes and not self.is_classifier:
            raise InvalidInput("classes= is for classification; leave it out or change the task")
        self._classes = Classes(classes, max_classes)
        self._columns: tuple[Column, ...] | None = None
        self.n_events = 0

    def _choose(
        self,
        optimizer: str,
        step: Step | None,
        regularization: float | None,
        forgetting: float,
    ) -> None:
        """Set and check the optimizer and its options."""
        if optimizer not in OPTIMIZERS:
            raise InvalidInput(f"optimizer={optimizer!r} must be one of {', '.join(OPTIMIZERS)}")
        self.optimizer, newton = optimizer, optimizer == "newton"
        if newton and not Newton.takes(self.loss):
            raise InvalidInput(f"loss {self.loss.name!r} has no curvature; choose optimizer='sgd'")
        if newton and step is not None:
            raise InvalidInput(f"step={step!r} is for optimizer='sgd'; leave it out")
        if not newton and forgetting != 1.0:
            raise InvalidInput(f"forgetting={forgetting!r} is for optimizer='newton'; leave it out")
        if not (step is None or isinstance(step, Step)) or isinstance(step, AdaGrad):
            raise InvalidInput(
                f"step={step!r} must be a streamk Step such as Constant(1.0), and not AdaGrad: its "
                "sums belong to single coordinates, and these turn where a landmark goes"
            )
        self.step = Constant(1.0) if step is None and not newton else step
        self.regularization = RIDGE * newton if regularization is None else regularization
        self.forgetting = forgetting
        number = (int, float, np.number)
        if not isinstance(forgetting, number) or not 0.0 < forgetting <= 1.0:
            raise InvalidInput(f"forgetting={forgetting!r} must be above 0 and at most 1")
        nu = self.regularization
        if not isinstance(nu, number) or not 0.0 <= nu < math.inf or (newton and nu == 0.0):
            least = "above 0, for the first steps" if newton else "at least 0"
            raise InvalidInput(f"regularization={nu!r} must be a number {least}")

    def _make_optimizer(self) -> Optimizer:
        shape: Any = {"classes": self.is_classifier, "n_outputs": self._n_outputs()}
        if self.step is None:
            return Newton(self.loss, self.regularization, self.forgetting, **shape)
        return StochasticGradient(self.loss, self.step, self.regularization, **shape)

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._columns

    def _follow(self, events: Matrix, numbers: NDArray[np.float64], asked: Asked | None) -> None:
        """Predict and learn events whose labels, NaN where there is none, have their outputs."""
        missing = np.isnan(numbers)
        edges = [0, *(np.flatnonzero(missing[1:] != missing[:-1]) + 1).tolist(), len(numbers)]
        for at, stop in pairwise(edges):
            if not missing[at]:
                part = asked and asked.part(at, stop)
                self._learn_labelled(events[at:stop], numbers[at:stop], part)
            elif asked is not None:
                asked.add(self.decide_checked(asked.of(events)[at:stop]))

    def _learn_labelled(
        self, events: Matrix, numbers: NDArray[np.float64], asked: Asked | None
    ) -> None:
        """Predict and learn events that all have labels."""
        raise NotImplementedError

    def _header(self) -> dict[str, Any]:
        """Return the common options, and what is known of the stream, as JSON."""
        header: dict[str, Any] = {
            "kernel": self.kernel.to_json(),
            "loss": self.loss.to_json(),
            "task": "classification" if self.is_classifier else "regression",
            "step": None if self.step is None else self.step.to_json(),
            "columns": None if self.columns is None else list(self.columns),
            "classes": list(self.classes),
            "max_classes": self.max_classes,
        }
        return header | {name: getattr(self, name) for name in (*_PLAIN, "n_events")}

    @staticmethod
    def _options(header: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments to make a learner by, from what `_header` gave."""
        step, columns = header["step"], header["columns"]
        return {
            "kernel": kernels.from_json(header["kernel"]),
            "loss": loss_by_name(**header["loss"]),
            "task": header["task"],
            "step": None if step is None else step_from_json(step),
            "columns": None if columns is None else listed(header, "columns", "a learner"),
            "classes": listed(header, "classes", "a learner"),
            "max_classes": header.get("max_classes", MOST_CLASSES),
            **{name: header[name] for name in _PLAIN},
        }


_PLAIN = ("optimizer", "regularization", "forgetting")
"""Options that are plain JSON, by their names."""
