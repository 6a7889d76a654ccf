"""The part of a compiled model that is written in another form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streamk.backends import LocalKernels
from streamk.features.columns import Column

__all__ = ["Model"]


class Model(Protocol):
    """A `streamk.prediction.CompiledModel`, which itself offers its other forms."""

    kernels: LocalKernels

    @property
    def classes(self) -> Sequence[str | int | bool]:
        """The classes; none of regression."""
        ...

    @property
    def columns(self) -> Sequence[Column] | None:
        """Names of the columns, where they have some."""
        ...

    @property
    def width(self) -> int:
        """Number of columns."""
        ...

    @property
    def n_outputs(self) -> int:
        """Scores of an event: one for two classes and for numbers."""
        ...
