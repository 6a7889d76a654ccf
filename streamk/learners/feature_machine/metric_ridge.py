"""Kernel ridge regression in a learned metric, which goes on to learn event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.declared import NON_NEGATIVE, Declared, Domain, count, number, taken
from streamk.errors import StateError
from streamk.kernels import Linear
from streamk.learners.common.supervised import Asked
from streamk.learners.feature_machine.columns import Columns
from streamk.learners.feature_machine.metric import Metric
from streamk.learners.feature_machine.search import Family
from streamk.learners.feature_machine.solved_part import SolvedPart
from streamk.learners.kernel_ridge.learner import BLOCK, OnlineKernelRidge
from streamk.state import State

Numbers = NDArray[Any]

_FURTHEST = 1e18
"""Bound of a point's numbers, whose squares are numbers of single precision, too."""
_MOST = 1e300
"""Bound of sums of errors."""
_WITHIN = Domain(-1e308, 1e308)
_BLOCKS = BLOCK, 4 * BLOCK
"""Events of a block, and those where the part that is solved for is large."""
_LARGE = 2_048
"""Events that make it large."""
_DOT = Linear()
"""Its products are the same bits in whatever batch a row comes, unlike those of BLAS."""


@dataclass(frozen=True)
class EventMap:
    """Events to points: columns on a scale, and then in a metric.

    Attributes
    ----------
    columns : Columns
    metric : Metric
    """

    columns: Columns
    metric: Metric

    @classmethod
    def identity(cls, d: int) -> EventMap:
        """Return the map that leaves events of d columns as they are."""
        return cls(Columns.as_they_are(d), Metric(np.ones(d)))

    def points(self, X: Numbers) -> Numbers:
        """Return the points of finite events X (n, d), float32 (n, d), row by row the same bits."""
        P, root = self.columns.scaled(X), self.metric.root
        with np.errstate(over="ignore"):
            found = P * root if self.metric.is_diagonal else _DOT.pairwise(P, root)
            return np.ascontiguousarray(np.clip(found, -_FURTHEST, _FURTHEST), np.float32)

    def extended(self, count: int) -> EventMap:
        """Return the map of so many more columns, which count as they are."""
        root = self.metric.root
        if root.ndim == 1:
            root = np.append(root, np.ones(count))
        else:
            root = scipy.linalg.block_diag(root, np.eye(count)).reshape(2 * [len(root) + count])
        return EventMap(self.columns.extended(count), Metric(root))

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name."""
        knots = self.columns.knots
        empty = np.zeros(0)
        return {
            "means": self.columns.means,
            "factors": self.columns.factors,
            "root": self.metric.root,
            "knots": np.array([len(values) for values, _ in knots], np.int64),
            "knot_values": np.concatenate([empty, *(values for values, _ in knots)]),
            "knot_ranks": np.concatenate([empty, *(ranks for _, ranks in knots)]),
        }

    @classmethod
    def of_arrays(cls, arrays: dict[str, Numbers], d: int, owner: str) -> EventMap:
        """Return the map of d columns whose arrays these are.

        Raises
        ------
        StateError
            If an array is missing, of another shape or out of its domain.
        """
        full = arrays.get("root", np.zeros(0)).ndim == 2
        ranked = len(arrays.get("knots", ())) > 0
        declared = (
            Declared("means", "float64", ("columns",), _WITHIN),
            Declared("factors", "float64", ("columns",), NON_NEGATIVE),
            Declared("root", "float64", ("columns", "columns") if full else ("columns",)),
            Declared("knots", "int64", ("columns" if ranked else 0,), Domain(least=0, most=2**20)),
            Declared("knot_values", "float64", ("values",)),
            Declared("knot_ranks", "float64", ("values",), Domain(0.0, 1.0)),
        )
        found, sizes = taken(declared, arrays, {"columns": d}, owner)
        found = {name: array.copy() for name, array in found.items()}
        if int(found["knots"].sum()) != sizes["values"]:
            raise StateError(f"array 'knots' of {owner} must sum to {sizes['values']}")
        ends = np.cumsum(found["knots"])[:-1]
        parts = (np.split(found[name], ends) for name in ("knot_values", "knot_ranks"))
        knots = tuple(zip(*parts, strict=True)) if ranked else ()
        if any((np.diff(values) <= 0.0).any() for values, _ in knots):
            raise StateError(f"array 'knot_values' of {owner} must ascend in each column")
        columns = Columns(np.zeros(d), found["means"], found["factors"], knots)
        return cls(columns, Metric(found["root"]))


class MetricRidge(OnlineKernelRidge):
    """Kernel ridge regression on points that events are mapped to, by parts.

    The first part, which is there or not, is solved for exactly (`SolvedPart`), anew after each
    block of events until it has as many as it may. From then on it stays as it is, and the second
    part learns what events since then differ from it, as `OnlineKernelRidge` does, with a kernel of
    its own: to correct a function event by event takes a narrower one than to solve for it, as the
    blocks of coefficients that are solved for at a time must not depend on each other by much. In
    that kernel an event is learned, too, until its block is complete.

    It also tells how well it has predicted the events that it has learned. Options are those of
    `OnlineKernelRidge`, its columns those of the points.

    Attributes
    ----------
    map : EventMap
    missed : float
        Sum of the errors of what was predicted before an event was learned, since it was last set
        to 0: of classes squared ones of margins, of numbers absolute ones.
    """

    TYPE = "metric-ridge"
    FORMAT = 4
    """From 2 on with the regularization of the first part, without which that does not grow, from 3
    on with what the last part of it adds to coefficients of the one before, from 4 on with the size
    of such a part."""
    UNCALIBRATED = 0
    WORK = 1_024
    map = EventMap.identity(0)
    missed = 0.0
    _base: SolvedPart | None = None

    def begin(
        self,
        part: SolvedPart,
        X: Numbers,
        y: Numbers,
        constant: Numbers,
        errors: Sequence[float] | None = None,
    ) -> None:
        """Solve for a first part of some events, before others are learned.

        Parameters
        ----------
        part : SolvedPart
            Without an event.
        X : float64 array of shape (n, d)
            The events, whole blocks of 64.
        y : float64 array of shape (n,)
            Their labels, as numbers.
        constant : float64 array of shape (outputs,)
        errors : sequence of float, optional
            `errors` of the function before, by which the second part's regularization is chosen
            until it has errors of its own. By default it is the largest one.
        """
        self._base = part
        if errors is None:
            errors = [1e-9 * place for place in range(len(self._ridges), 0, -1)]
        self._errors = np.array(errors, np.float64)
        self._constant, self._settled = constant, 0
        self._solve_with(self.map.points(X), y)
        self._fit_block()

    def _close_block(self) -> None:
        super()._close_block()
        self._fit_block()

    def _fit_block(self) -> None:
        """Have larger blocks where it takes long to solve for all coefficients."""
        base = self._base
        large = base is not None and base.n_last >= _LARGE and base.room >= _BLOCKS[1]
        block = _BLOCKS[large]
        if block != self._block:
            self._block = block
            self._begin_block()

    def _solve_with(self, points: Numbers, y: Numbers) -> None:
        """Add events to the first part."""
        assert self._base is not None
        self._base.add(points, y, lambda labels: self._targets(labels) - self._constant)

    def close(self) -> None:
        """Have the first part take no further events."""
        if self._base is not None:
            self._base.close()

    def calibrate(self, F: Numbers, labels: Numbers, factor: float) -> None:
        """Begin with an inverse temperature, that of outputs F (n, outputs) not learned from."""
        self._calibration.factor = factor
        self._calibration.add(F, labels)
        self._calibration.close(len(F))

    # What it is

    @property
    def family(self) -> Family | None:
        """The family that the first part is of."""
        if self._base is None:
            return None
        scale = "ranks" if self.map.columns.knots else "standard"
        return Family(scale, self._base.kernel, self.map.metric.is_diagonal)

    @property
    def errors(self) -> list[float] | None:
        """Those of the second part's regularizations, where there is a first part."""
        return None if self._base is None else self._errors.tolist()

    @property
    def n_solved(self) -> int:
        """Events of the first part."""
        return 0 if self._base is None else len(self._base)

    @property
    def grows(self) -> bool:
        """Whether the first part takes further events."""
        return self._base is not None and self._base.grows

    @property
    def n_features(self) -> int:
        """Centers of both parts."""
        return super().n_features + self.n_solved

    @property
    def nbytes(self) -> int:
        """Memory of centers, coefficients and the first part's factor, in bytes."""
        return super().nbytes + (0 if self._base is None else self._base.nbytes)

    # Learning and predicting

    def learn(self, X: Numbers, y: Numbers, asked: Asked | None = None) -> None:
        """Learn events X (n, d) with labels y (n,) as numbers, one after the other."""
        if asked is not None and asked.events is not None:
            asked = Asked(self.map.points(asked.events), asked.add)
        self._learn_labelled(self.map.points(X), y, asked)

    def decide(self, X: Numbers) -> Numbers:
        """Return the outputs of events X (n, d), float64 (n, outputs)."""
        return self.decide_checked(X if self.columns is None else self.map.points(X))

    def targets(self, y: Numbers) -> Numbers:
        """Return labels as they are learned, float64 (n, outputs)."""
        return self._targets(y)

    def _learn(self, X: Numbers, y: Numbers) -> Numbers:
        F = super()._learn(X, y)
        missed = np.abs(self._decided(F) - self._targets(y))
        if self.is_classifier:
            missed = np.square(np.minimum(missed, _FURTHEST))
        # Summed up one by one, for the same bits in whatever batches events come.
        total = np.cumsum(np.append(self.missed, np.minimum(missed.sum(axis=1), _MOST)))[-1]
        self.missed = min(float(total), _MOST)
        return F

    def _outputs_of(self, X: Numbers) -> Numbers:
        F = super()._outputs_of(X)
        return F if self._base is None else F + self._for_each(self._base.outputs(X))

    def _outputs_at(self, slots: Numbers) -> Numbers:
        F = super()._outputs_at(slots)
        return F if self._base is None else F + self._for_each(self._solved[slots])

    @cached_property
    def _solved(self) -> Numbers:
        """Outputs of the first part at the centers of the second, by their slots."""
        assert self._base is not None
        found = np.zeros((self.max_centers, self._n_outputs()))
        found[: len(self._centers)] = self._base.outputs(self._centers.points)
        return found

    def _for_each(self, F: Numbers) -> Numbers:
        """Return outputs (n, outputs) once for each function that is learned."""
        return np.tile(F, len(self._ridges))

    def _take_block(self, X: Numbers, y: Numbers, A: Numbers) -> None:
        base = self._base
        if base is not None and base.grows:
            self._solve_with(X, y)
            return
        if base is not None:
            self._solved[self._centers.next_slots(len(X))] = base.outputs(X)
        super()._take_block(X, y, A)

    # Columns and outputs

    def extend(self, count: int) -> None:
        """Take up columns that were 0 in all events so far."""
        known = len(self.columns or ())
        self.map = self.map.extended(count)
        if self._base is not None:
            self._base.add_columns(count)
        self.add_columns(range(known, known + count))

    def _fit_centers(self, fitted: Callable[[Numbers], Numbers]) -> None:
        super()._fit_centers(fitted)
        if self._base is not None:
            self._base.fit_outputs(fitted)
            self.__dict__.pop("_solved", None)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        known, base = super().state(), self._base
        header = {**known.header, "missed": self.missed, "base": None, "block": self._block}
        arrays = {**known.arrays, **self.map.arrays()}
        if base is not None:
            header["base"] = base.header()
            arrays |= {f"base_{name}": array for name, array in base.arrays().items()}
        return State(header, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the function whose state this is.

        Raises
        ------
        StateError
            If it is the state of something else or of a newer format, or is damaged.
        """
        learner = super().from_state(state)
        owner, columns = cls._owner(), len(learner.columns or ())
        learner.map = EventMap.of_arrays(state.arrays, columns, owner)
        learner.missed = number(state.header, "missed", owner, NON_NEGATIVE)
        if state.header.get("base") is not None:
            learner._restore_base(state)
        return learner

    @classmethod
    def _from_header(cls, state: State, **more: Any) -> Self:
        learner = super()._from_header(state, **more)
        if count(state.header, "format", cls._owner()) > 1:
            learner._block = count(state.header, "block", cls._owner())
            if learner._block not in _BLOCKS:
                raise StateError(f"'block' of {cls._owner()} must be one of {_BLOCKS}")
            learner._begin_block()
        return learner

    def _restore_base(self, state: State) -> None:
        """Take the part that was solved for."""
        named = {
            name.removeprefix("base_"): array
            for name, array in state.arrays.items()
            if name.startswith("base_")
        }
        self._base = SolvedPart.of(
            state.header["base"],
            named,
            capacity=self.max_centers,
            sizes=self._sizes(),
            labels=self._label_domain,
            owner=f"'base' of {self._owner()}",
        )
        self._settled = 0
