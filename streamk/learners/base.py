"""The interface of learners to the engine and to the adapters."""

from __future__ import annotations

from threading import RLock
from typing import Protocol

from streamk.features.columns import Column
from streamk.learners.common.classes import Label
from streamk.learners.common.methods import Methods


class Learner(Methods, Protocol):
    """A model that learns from batches of events and predicts them.

    What it predicts for an event is the same, bit for bit, in whatever batch the event comes and
    whatever the number of threads; what it learns depends on the batches and their order alone.
    """

    @property
    def TYPE(self) -> str:  # noqa: N802 (a constant of the class)
        """The name of its kind, in states and on the command line."""
        ...

    @property
    def lock(self) -> RLock:
        """The lock of a thread that wants the learner to itself for several calls."""
        ...

    @property
    def is_classifier(self) -> bool:
        """True if labels are classes, False if they are numbers."""
        ...

    @property
    def takes_missing(self) -> bool:
        """True if a value may be missing (NaN)."""
        ...

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        ...

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        ...

    @property
    def max_classes(self) -> int:
        """Classes that there may be; labels that would make more are refused."""
        ...

    @property
    def n_events(self) -> int:
        """Events learned."""
        ...

    @property
    def n_features(self) -> int:
        """Random features or landmarks in use."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
        ...
