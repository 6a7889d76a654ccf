"""Kernel ridge regression on points that is solved for, and goes on to learn event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.declared import Domain, count, flag
from streamk.errors import StateError
from streamk.kernels import Kernel
from streamk.learners.centers import KEPT, targets_of
from streamk.learners.common.calibration import Calibration
from streamk.learners.common.classes import LARGEST_OUTPUT
from streamk.learners.common.supervised import Asked
from streamk.learners.kernel_ridge import BLOCK, OnlineKernelRidge
from streamk.learners.renewal import Background
from streamk.learners.rfm.ridge import SolvedPart
from streamk.state import State

Numbers = NDArray[Any]

_BLOCKS = {BLOCK: BLOCK // 4, 2 * BLOCK: BLOCK // 2, 4 * BLOCK: BLOCK // 2}
"""Events of a block: at first, and where it takes long to solve for one more, with the part's
factor, and without. And those of the next one while which a block is solved for."""
ALONE = (np.inf, 0.0)
"""Errors of a first part that is asked alone."""
_QUICK = 512
"""Events of a part up to which a block is solved for at once."""
_AT_ONCE = 1 << 21
"""Numbers of centers up to which a single event keeps the interpreter: some 100 microseconds."""
_LARGE = 1_024, 768
"""Events of a part from which on it takes long, if its factor is kept, and if not."""


class RidgeSettings(NamedTuple):
    """Kernel, regularization and constant that a function of events is solved with."""

    kernel: Kernel
    ridge: float
    """Regularization."""
    constant: Numbers
    """Float64 (outputs,)."""
    errors: Sequence[float] | None = None
    """Those of the function before, by which the second part's regularization is
    chosen until it has errors of its own. By default it is the largest one."""


class MetricRidge(OnlineKernelRidge):
    """Kernel ridge regression on points, by parts: a leaf of `MetricTree`.

    The first part, which is there or not, is solved for exactly (`SolvedPart`), anew after each
    block of events until it has as many as it may. From then on it stays as it is, and the second
    part learns what events since then differ from it, as `OnlineKernelRidge` does, with a kernel of
    its own: to correct a function event by event takes a narrower one than to solve for it, as the
    blocks of coefficients that are solved for at a time must not depend on each other by much. In
    that kernel an event is learned, too, until the first part has its block.

    From 512 events of a part on, a block is solved for in the background while the next one is
    learned, and its events are centers of the second part until that is complete.

    Options are those of `OnlineKernelRidge`.
    """

    TYPE = "metric-ridge"
    WORK = BLOCK
    RIDGES = (0.5, np.inf)
    """By the last one nothing is learned but by the first part, whose outputs its function has."""
    _base: SolvedPart | None = None
    _next_base: Background[SolvedPart] | None = None
    """With the block that the centers are, while that is solved for."""
    _columns_since = 0
    """Columns that came since that was begun."""
    _keeps = True
    _errors_domain = Domain(least=0.0, infinite=True)

    def __init__(self, kernel: Kernel, **options: Any) -> None:
        self._said: list[Numbers] = []
        """Outputs of all functions, the last of which is the first part as it is, for the last
        events that no block has yet."""
        self._known: tuple[tuple[Any, ...], ...] | None = None
        """See `_loop_arguments`; None where it has changed since."""
        super().__init__(kernel, **options)

    def _make_room(self, X: Numbers, y: Numbers) -> None:
        super()._make_room(X, y)
        self._known = None
        self._takeover = _BLOCKS[self._block]
        """Event of the block after which the first part has the one before."""

    def begin(self, settings: RidgeSettings, capacity: int, X: Numbers, y: Numbers) -> None:
        """Solve for a first part of some events, before others are learned.

        It may have so many events, and takes the points X (n, d), whole blocks of 64, with labels
        y (n,) as numbers.
        """
        kernel, ridge, self._constant, errors = settings
        sizes = {"n_columns": X.shape[1], "n_outputs": len(settings.constant)}
        self._base = SolvedPart(kernel, ridge, capacity, first=len(X), **sizes)
        if errors is None:
            errors = [1e-9 * place for place in range(len(self._ridges), 0, -1)]
        self._errors, self._settled, self._known = np.array(errors, np.float64), 0, None
        self._solve_with(X, y)
        self._fit_block()

    def _close_block(self) -> None:
        super()._close_block()
        self._fit_block()

    def _fit_block(self) -> None:
        """Have larger blocks where it takes long to solve for all coefficients."""
        base, block = self._base, BLOCK
        if base is not None:
            least, large = (_LARGE[0], 2 * BLOCK) if self._keeps else (_LARGE[1], 4 * BLOCK)
            if base.n_last >= least and base.room - self._n_solving >= large:
                block = large
        if block != self._block:
            self._block = block
            self._begin_block()

    def _solve_with(self, points: Numbers, y: Numbers) -> None:
        """Add events to the first part."""
        assert self._base is not None
        self._base.add(points, y, self._left_to_solve)
        if not self._keeps:
            self._base.forget_factor()

    @property
    def _left_to_solve(self) -> Callable[[Numbers], Numbers]:
        """The function of labels that gives outputs of the first part, as they are now."""
        constant, margins = self._constant, self._n_outputs() if self.is_classifier else 0
        return lambda labels: targets_of(labels, margins) - constant

    def _solve_in_background(self) -> None:
        """Begin to add the events that are centers to the first part."""
        assert self._base is not None
        points, labels = self._centers.points.copy(), self._centers.labels.copy()
        self._next_base = Background(self._base.extending(points, labels, self._left_to_solve))

    def _take_over_block(self) -> None:
        """Go on with the first part of all blocks that are complete."""
        if self._next_base is None:
            return
        base = self._next_base.result()
        if self._columns_since:
            base.add_columns(self._columns_since)
        self._base, self._next_base, self._columns_since = base, None, 0
        self._known = None
        self._said.clear()
        if not self._keeps:
            self._base.forget_factor()
        self._centers.clear()
        self._recent.clear()

    @property
    def _stop(self) -> int:
        early = self._next_base is not None and self._n_pending < self._takeover
        return self._takeover if early else self._block

    def _turn(self) -> None:
        self._take_over_if_due()
        super()._turn()

    def _take_over_if_due(self) -> None:
        """Take over the block that was solved for, at its event or after an interrupt there."""
        if self._next_base is not None and self._n_pending >= self._takeover:
            self._take_over_block()

    def _learn_labelled(self, events: Numbers, numbers: Numbers, asked: Asked | None) -> None:
        self._take_over_if_due()
        super()._learn_labelled(events, numbers, asked)

    def close(self) -> None:
        """Have the first part take no further events."""
        self._take_over_block()
        if self._base is not None:
            self._base.close()

    def keep_factor(self, keep: bool) -> None:
        """Keep the factor, or have it made again with each block, by the same steps."""
        self._keeps = keep
        if not keep:
            self.forget_factor()

    def forget_factor(self) -> None:
        """Free the memory of the factor, which is made again when it is needed."""
        if self._base is not None:
            self._base.forget_factor()

    # What it is

    @property
    def settings(self) -> RidgeSettings | None:
        """The way in which the first part is solved for, if there is one."""
        base = self._base
        if base is None:
            return None
        return RidgeSettings(base.kernel, base.ridge, self._constant, self._errors.tolist())

    @property
    def solved(self) -> tuple[Numbers, Numbers]:
        """The points (n, d) and labels (n,) of the first part, and those that no block has yet.

        They are in the order they came.
        """
        self._take_over_block()
        assert self._base is not None
        known = self._base.arrays()
        points = np.concatenate([known["points"], self._pending])
        return points, np.append(known["labels"], self._pending_labels)

    @property
    def follows(self) -> bool:
        """False where the first part is asked alone."""
        return bool(np.isfinite(self._errors[0]))

    @property
    def room(self) -> int:
        """Events that the first part may have, 0 where there is none."""
        return 0 if self._base is None else self._base.capacity

    @property
    def n_outputs(self) -> int:
        """Numbers that an event is predicted by."""
        return self._n_outputs()

    @property
    def n_solved(self) -> int:
        """Events of the first part, with those that are solved for."""
        return 0 if self._base is None else len(self._base) + self._n_solving

    @property
    def _n_solving(self) -> int:
        """Events that are solved for in the background."""
        return 0 if self._next_base is None else len(self._centers)

    @property
    def grows(self) -> bool:
        """True while the first part takes further events."""
        return self._base is not None and self._base.grows

    @property
    def n_features(self) -> int:
        """Centers of both parts."""
        return super().n_features + (0 if self._base is None else len(self._base))

    @property
    def nbytes(self) -> int:
        """Memory of centers, coefficients and the first part's factor, in bytes."""
        base = self._base
        if base is None:
            return super().nbytes
        return super().nbytes + base.nbytes - (0 if self._keeps else base.factor_nbytes)

    # Learning and predicting

    def learn_points(self, points: Numbers, y: Numbers, asked: Asked | None = None) -> Numbers:
        """Learn points (n, d) with labels y (n,), one after the other.

        Returns what each was predicted before, float64 (n, outputs).
        """
        if asked is None and len(points) == 1:
            one = self.learn_point(points, y, (1.0, 1.0, 0.0, *Calibration().sums))
            if one is not None:
                return one[0]
        found: list[Numbers] = []
        self._found = found.append
        self._learn_labelled(points, y, asked)
        return np.concatenate(found) if found else np.zeros((0, self._n_outputs()))

    def decide_checked(self, events: Numbers) -> Numbers:
        """Outputs as of `decision_many`, of finite events of the dtype."""
        known = self._loop_arguments() if len(events) == 1 else ()
        if not known:
            return super().decide_checked(events)
        given, outputs = self._ask_one(events, known[0])
        if len(self._recent) < KEPT:
            self._recent[events.tobytes()] = given
        return outputs

    def _ask_one(self, point: Numbers, known: tuple[Any, ...]) -> tuple[Numbers, Numbers]:
        """Return what the centers give for a point (1, d), of each function, and its outputs."""
        given = np.empty((1, self._pending_coefficients.shape[1]))
        outputs = np.empty((1, len(self._constant)))
        loops.centers.ask_one(*known, self._n_pending, point, given, outputs)
        return given, outputs

    def _loop_arguments(self) -> tuple[tuple[Any, ...], ...]:
        """Return what stays for a block as the loops of a single event take it: to ask, to learn.

        It is () if that takes long, or is nothing.
        """
        if self._known is None:
            own = self._centers.sum
            none = own._replace(laid=own.laid[:0])
            done, last = (none, none) if self._base is None else self._base.sums
            each = [part.laid for part in (own, done, last)]
            d = len(self.columns or ())
            takes = d and {laid.shape[1] for laid in each} == {d}  # none is of a kernel that maps
            (points, labels), A = self._rooms, self._pending_coefficients
            say = self._errors, self._constant, LARGEST_OUTPUT
            margins = len(self._constant) * self.is_classifier
            self._known = ()
            if takes and sum(laid.size for laid in each) <= _AT_ONCE:
                self._known = (
                    (*own, *done, *last[3:], points, A, *say),
                    (*own[:3], points, labels, A, self._ridges, self._errors_now, *say, margins),
                )
        return self._known

    def learn_point(
        self, point: Numbers, y: Numbers, known: tuple[Any, ...]
    ) -> tuple[Numbers, float] | None:
        """Learn a single point (1, d) with label y (1,), None if that has to go as of many.

        Returns what it was predicted before, and the total of errors, as of `learning.missed`,
        whose arguments after the labels are known.
        """
        self._take_over_if_due()
        arguments = self._loop_arguments()
        if not arguments:
            return None
        to_ask, to_learn = arguments
        F = self._recent.pop(point.tobytes(), None)
        if F is None:
            F, _ = self._ask_one(point, to_ask)
        outputs = np.empty((1, len(self._constant)))
        one = self._n_pending, point, y, F, outputs
        missed = loops.centers.learn_one(*to_learn, *one, *known)
        self._said.append(F)
        self._n_pending += 1
        self.n_events += 1
        self._turn()
        return outputs, missed

    def _learn(self, X: Numbers, y: Numbers) -> Numbers:
        F = super()._learn(X, y)
        self._said.append(F)
        self._found(self._decided(F))
        return F

    def _calibrate(self, F: Numbers, y: Numbers) -> None:
        """Do nothing: the tree adjusts the probabilities of all its leaves."""

    def _outputs_of(self, X: Numbers) -> Numbers:
        F = super()._outputs_of(X)
        return F if self._base is None else F + self._for_each(self._base.outputs(X))

    def _outputs_at(self, slots: Numbers) -> Numbers:
        F = super()._outputs_at(slots)
        return F if self._base is None else F + self._for_each(self._of_base[slots])

    @cached_property
    def _of_base(self) -> Numbers:
        """Outputs of the first part at the centers of the second, by their slots."""
        assert self._base is not None
        found = np.zeros((self.max_centers, self._n_outputs()))
        found[: len(self._centers)] = self._base.outputs(self._centers.points)
        return found

    def _for_each(self, F: Numbers) -> Numbers:
        """Return outputs (n, outputs) once for each function that is learned."""
        return np.concatenate(len(self._ridges) * [F], axis=1)

    def _take_block(self, X: Numbers, y: Numbers, A: Numbers) -> None:
        base, outputs = self._base, self._n_outputs()
        said = np.concatenate(self._said or [np.zeros((0, outputs))])[:, -outputs:]
        self._said.clear()
        if base is not None and base.grows:
            if base.n_last < _QUICK:
                self._solve_with(X, y)
                return
            self._centers.append(X, y, A)
            self._solve_in_background()
            return
        if base is not None:
            slots = self._centers.next_slots(len(X))
            self._of_base[slots] = said if len(said) == len(X) else base.outputs(X)
        super()._take_block(X, y, A)

    # Columns and outputs

    def extend(self, count: int) -> None:
        """Take up columns that were 0 in all events so far."""
        known = len(self.columns or ())
        if self._base is not None:
            self._base.add_columns(count)
        if self._next_base is not None:
            self._columns_since += count
        self.add_columns(range(known, known + count))

    def _fit_centers(self, fitted: Callable[[Numbers], Numbers]) -> None:
        self._take_over_block()
        super()._fit_centers(fitted)
        self._known = None
        self._said.clear()
        if self._base is not None:
            self._base.fit_outputs(fitted)
            self.__dict__.pop("_of_base", None)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        self._take_over_if_due()
        known, base = super().state(), self._base
        solving = self._next_base is not None
        header = {**known.header, "base": None, "block": self._block, "solving": solving}
        arrays = dict(known.arrays)
        if base is not None:
            header |= {"base": base.header(), "room": base.capacity}
            arrays |= {f"base_{name}": array for name, array in base.arrays().items()}
        return State(header, arrays)

    @classmethod
    def _from_header(cls, state: State, **more: Any) -> Self:
        learner = super()._from_header(state, **more)
        learner._block = count(state.header, "block", cls._owner())
        if learner._block not in _BLOCKS:
            raise StateError(f"'block' of {cls._owner()} must be one of {list(_BLOCKS)}")
        learner._begin_block()
        return learner

    def _load_block(self, state: State) -> None:
        super()._load_block(state)
        if not np.isfinite(self._errors[1:]).all():
            raise StateError(f"array 'errors' of {self._owner()} holds a value that is not finite")
        header: Any = state.header
        if header.get("base") is None:
            return
        named = {
            name.removeprefix("base_"): array
            for name, array in state.arrays.items()
            if name.startswith("base_")
        }
        self._base = SolvedPart.of(
            header["base"],
            named,
            capacity=count(header, "room", self._owner(), least=1),
            sizes=self._sizes(),
            labels=self._label_domain,
            owner=f"'base' of {self._owner()}",
        )
        self._settled = 0
        solving = flag(header, "solving", self._owner())
        centers, pending = len(self._centers), self._n_pending
        can_be = centers in _BLOCKS and centers <= self._base.room and pending < self._takeover
        if solving != can_be:
            raise StateError(
                f"'solving' of {self._owner()} is {solving!r}, which does not fit {centers} "
                f"centers and {pending} events that are none"
            )
        if solving:
            self._solve_in_background()
