"""The common part of learners whose function is linear in embedded features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamk import options
from streamk.declared import listed
from streamk.errors import InvalidInput, shown
from streamk.features.columns import Column
from streamk.kernels import Kernel
from streamk.learners.common.classes import Classes, Label, classifies
from streamk.learners.common.optimizers import Newton, Optimizer, StochasticGradient
from streamk.learners.common.options import (
    OF_KERNEL_LEARNERS,
    OF_OPTIMIZERS,
    check_classification,
)
from streamk.learners.common.steps import AdaGrad, Constant, Ladder, Step
from streamk.learners.common.supervised import Supervised
from streamk.losses import Loss
from streamk.losses import loss as loss_by_name
from streamk.options import Option

Matrix = NDArray[np.float64]

RIDGE = 0.1
"""Default regularization of Newton steps."""


class OnEmbeddedFeatures(Supervised):
    """A learner by gradient or Newton steps in coordinates; its options are `OnlineNystrom`'s."""

    dtype: np.dtype[Any] = np.dtype(np.float64)
    """Of events and coefficients."""
    n_events: int
    TYPE: ClassVar[str]
    OPTIONS: ClassVar[dict[str, Option]]

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
        self.optimizer, self.step, self.forgetting = optimizer, step, forgetting
        if regularization is None:
            regularization = RIDGE if optimizer == "newton" else 0.0
        self.regularization = regularization
        options.check({**OF_KERNEL_LEARNERS, **OF_OPTIMIZERS}, self)
        self._check_optimizer()
        if step is None and optimizer == "sgd":
            self.step = Constant(1.0)
        self.is_classifier = classifies(self.loss, task)
        if not self.is_classifier:
            check_classification(classes=classes)
        self._classes = Classes(classes, max_classes)
        self._columns: tuple[Column, ...] | None = None
        self.n_events = 0

    def _check_optimizer(self) -> None:
        """Raise InvalidInput if an option is not one of the optimizer's."""
        newton = self.optimizer == "newton"
        if newton and not Newton.takes(self.loss):
            raise InvalidInput(f"loss {self.loss.name!r} has no curvature; choose optimizer='sgd'")
        if newton and self.step is not None:
            raise InvalidInput(f"step={self.step!r} is for optimizer='sgd'; leave it out")
        if not newton and self.forgetting != 1.0:
            raise InvalidInput(
                f"forgetting={shown(self.forgetting)} is for optimizer='newton'; leave it out"
            )
        if isinstance(self.step, AdaGrad):
            raise InvalidInput(
                f"step={self.step!r} cannot be AdaGrad: its sums belong to single coordinates, and "
                "these turn where a landmark goes; take Constant(1.0), say"
            )
        if isinstance(self.step, Ladder):
            raise InvalidInput(
                f"step={self.step!r} cannot be a Ladder, which doubly-stochastic has; take "
                "Constant(1.0), say"
            )
        if newton and self.regularization == 0.0:
            raise InvalidInput(
                f"regularization={shown(self.regularization)} must be a number above 0, for the "
                "first steps of optimizer='newton'"
            )

    def _make_optimizer(self) -> Optimizer:
        shape: Any = {"classes": self.is_classifier, "n_outputs": self._n_outputs()}
        if self.step is None:
            return Newton(self.loss, self.regularization, self.forgetting, **shape)
        return StochasticGradient(self.loss, self.step, self.regularization, **shape)

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._columns

    def _header(self) -> dict[str, Any]:
        """Return type, format, options and what is known of the stream, as JSON data."""
        return {
            "type": self.TYPE,
            **options.to_header(self.OPTIONS, self),
            "task": "classification" if self.is_classifier else "regression",
            "columns": None if self.columns is None else list(self.columns),
            "classes": list(self.classes),
            "n_events": self.n_events,
        }

    @classmethod
    def _from_header(cls, header: Mapping[str, Any]) -> Self:
        """Return a learner that has learned nothing, by what `_header` gave."""
        columns = header["columns"]
        made: Any = cls  # its constructor has the options
        learner: Self = made(
            **options.from_header(cls.OPTIONS, header),
            task=header["task"],
            columns=None if columns is None else listed(header, "columns", "a learner"),
            classes=listed(header, "classes", "a learner"),
        )
        return learner
