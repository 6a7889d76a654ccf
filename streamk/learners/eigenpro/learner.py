"""Kernel models whose centers are chosen apart from the events that they learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.declared import Declared, count, taken
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.features.random_features import check_events
from streamk.kernels import Kernel
from streamk.learners.common.classes import MOST_CLASSES, Label
from streamk.learners.common.merging import merge_by_events
from streamk.learners.common.options import MAX_CLASSES, OF_KERNEL_LEARNERS, SEED
from streamk.learners.common.outputs import aligned, bounded
from streamk.learners.eigenpro.direct import DirectSolver, functions_of
from streamk.learners.eigenpro.projected_gradient import ProjectedGradient
from streamk.learners.eigenpro.projection import (
    ExactProjection,
    apart,
    check_apart,
    unrepeated,
)
from streamk.learners.eigenpro.selection import Selection
from streamk.learners.kernel_ridge.centers import Centers
from streamk.learners.kernel_ridge.on_centers import RIDGES, SETTLED, OnCenters
from streamk.options import Choice, Option, Real, Whole
from streamk.state import State

Numbers = NDArray[Any]

BYTES = 2**31
"""Memory for matrices of centers by centers."""
ROWS = (0.5, 4.0, np.inf)
"""Regularizations of events' own rows until their batch is learned; infinite, they are none.

Where an event tells of those right after it, they are worth a lot; where it does not, they are
noise. The one with the least squared error is asked.
"""


class EigenPro(OnCenters):
    """Kernel models with centers of their own, trained on all events that pass by.

    The function is ``f(x) = c + sum of a_j k(x, z_j)`` on p centers z_j, and however many events it
    learns, it takes the memory of the centers: model and data are apart (Abedsoltan, Belkin and
    Pandit, "Toward large kernel models", 2023). Targets are +1 and -1 for each class, and numbers
    themselves.

    Two solvers learn it:

    - "direct" sums up the normal equations of ridge regression, which take p^2 multiplications an
      event and ``32 p^2`` bytes, and gives their solution after each batch. It is the better one as
      long as they fit.
    - "eigenpro" is EigenPro 3: gradient steps on batches with a Nyström preconditioner, projected
      onto the span of the centers, by a factorization of K(Z, Z) where that fits, by EigenPro 2
      without any matrix of centers by centers beyond. An event takes 2 p (d + outputs)
      multiplications, d the columns.

    Neither has a learning rate: regularization, level of the preconditioner and size of steps
    follow from the events. Until its batch is full, an event is learned by its own row of the
    kernel matrix, so the next prediction knows it.

    Centers are chosen from the events while they come: after each doubling of these, until there
    are four events for each center. The direct solver keeps the events until then and learns all of
    them anew on each choice; "eigenpro" adds the new ones with coefficients of 0.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Laplacian, Matern, RationalQuadratic or Cauchy. The papers' Laplace kernel is
        ``Matern(nu=0.5)``. Its bandwidth is in the unit of the columns; `Scaled` gives them a
        common one.
    task : {"classification", "regression"}, default "classification"
    n_centers : int, default 2000
        Centers, p. Events whose kernels lie in the span of others are left out.
    centers : array of shape (p, d), optional
        The centers, if they are known; they are learned with from the first batch on.
    selection : {"random", "k-means"}, default "random"
        How centers are chosen among the events. "k-means" takes centres of clusters of the events,
        once there are four for each, and needs scikit-learn.
    solver : {"auto", "direct", "eigenpro"}, default "auto"
        "auto" is "direct" up to 8,192 centers, where its matrices take 2 GiB.
    regularization : float, optional
        Of "direct": the variance of the labels' noise for a function of variance 1. By default one
        of .1, .5, 2 and 8, as of `streamk.learners.OnlineKernelRidge`.
    forgetting : float, default 1
        Of "direct": an event counts by this factor less for each one after it.
    batch_size : int, default 256
    seed : int, default 0
        Of the centers, and of the order of inexact projections.
    columns, classes, max_classes
        As of `streamk.learners.OnlineNystrom`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain or is one of the other solver, or a given center is not
        finite or lies in the span of the others.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Matern
    >>> from streamk.learners import EigenPro
    >>> X = np.random.default_rng(0).uniform(-1, 1, (3000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = EigenPro(Matern(nu=0.5), n_centers=200)
    >>> model.learn_many(X[:2900], y[:2900])
    >>> bool((model.predict_many(X[2900:]) == y[2900:]).mean() > 0.9)
    True
    """

    TYPE = "eigenpro"
    FORMAT = 1
    OPTIONS: ClassVar[dict[str, Option]] = {
        "kernel": replace(
            OF_KERNEL_LEARNERS["kernel"], about="one of the kernels below but linear (laplacian)"
        ),
        "n_centers": Whole(least=2, about="points that carry the function"),
        "selection": Choice(choices=("random", "k-means"), about="of centers: random or k-means"),
        "solver": Choice(choices=("auto", "direct", "eigenpro"), about="auto, direct or eigenpro"),
        "regularization": Real(
            open_below=True,
            optional=True,
            about="of direct: variance of labels' noise (chosen by itself)",
        ),
        "forgetting": Real(
            open_below=True, most=1.0, about="of direct: what an event counts after the next"
        ),
        "batch_size": Whole(least=2, most=2048, about="events that are learned together"),
        "seed": SEED,
        "max_classes": replace(MAX_CLASSES, since=1),
    }

    def __init__(
        self,
        kernel: Kernel,
        *,
        task: str = "classification",
        n_centers: int = 2000,
        centers: ArrayLike | None = None,
        selection: str = "random",
        solver: str = "auto",
        regularization: float | None = None,
        forgetting: float = 1.0,
        batch_size: int = 256,
        seed: int = 0,
        columns: Sequence[Column] | None = None,
        classes: Sequence[Label] = (),
        max_classes: int = MOST_CLASSES,
    ) -> None:
        given = None if centers is None else check_events(centers, np.dtype(np.float32), columns)
        self.n_centers = n_centers if given is None else len(given)
        self.selection, self.solver, self.batch_size = selection, solver, batch_size
        self.regularization, self.forgetting, self.seed = regularization, forgetting, seed
        options.check({name: self.OPTIONS[name] for name in ("n_centers", "solver")}, self)
        self._is_direct = solver == "direct" or (
            solver == "auto" and 32 * self.n_centers**2 <= BYTES
        )
        self._check_solver()
        ridges: tuple[float, ...] = RIDGES
        if regularization is not None:
            ridges = (regularization,)
        self._candidates = ridges
        super().__init__(
            kernel,
            task=task,
            ridges=[row for _, row in self._functions],
            block=batch_size,
            classes=classes,
            max_classes=max_classes,
        )
        self._n_learned = 0
        self._first: Selection | None = self._new_selection() if given is None else None
        """Events among which centers are chosen; None once they are."""
        self._centers = Centers(kernel, self.n_centers, n_columns=0, n_outputs=self._stored)
        self._solver: DirectSolver | ProjectedGradient | None = None
        if given is not None and columns is None:
            columns = range(given.shape[1])
        if columns is not None:
            self.add_columns(columns)
        if given is not None:
            self._take_given(given)

    def _new_selection(self) -> Selection:
        return Selection(self.n_centers, method=self.selection, seed=self.seed)

    def _check_solver(self) -> None:
        """Raise InvalidInput if an option is not one of the solver's."""
        if self._is_direct:
            return
        why = "" if self.solver != "auto" else f", which n_centers={self.n_centers} asks for"
        if self.regularization is not None or self.forgetting != 1.0:
            name = "forgetting" if self.regularization is None else "regularization"
            raise InvalidInput(
                f"{name}={getattr(self, name)!r} is for solver='direct', not 'eigenpro'{why}; "
                "leave it out"
            )

    def _take_given(self, Z: Numbers) -> None:
        """Take the centers that the caller has."""
        K = self.kernel.pairwise(Z) if self._has_matrix else None
        if K is not None:
            check_apart(K)
        elif len(unrepeated(Z)) < len(Z):
            raise InvalidInput(
                f"some of the {len(Z)} centers are the same; leave repeated ones out"
            )
        self._set_centers(Z, K)

    # What it is

    @property
    def _functions(self) -> tuple[tuple[int, float], ...]:
        """The solver's function and the regularization of own rows of each that is followed."""
        if not self._is_direct:
            return tuple((function, row) for function in range(2) for row in ROWS)
        asked = tuple((0, row) for row in ROWS)
        many = len(functions_of(self._candidates, 0))
        return asked + tuple((function, np.inf) for function in range(1, many))

    @property
    def _has_matrix(self) -> bool:
        """Whether a matrix of centers by centers is stored."""
        return self._is_direct or 16 * self.n_centers**2 <= BYTES

    @property
    def _stored(self) -> int:
        """Outputs of the solver's functions."""
        return (1 + self._functions[-1][0]) * self._n_outputs()

    @property
    def chosen_regularization(self) -> float:
        """The regularization of the direct solver's function, 0 of the other one's."""
        chosen = self._solver.turn if isinstance(self._solver, DirectSolver) else 0
        return self._candidates[chosen] if self._is_direct else 0.0

    @property
    def _best(self) -> int:
        """The function that is asked."""
        return int(np.argmin(self._errors[: len(ROWS)] if self._is_direct else self._errors))

    @property
    def n_features(self) -> int:
        """Centers in use, temporary ones, and the events since the last batch."""
        solver = self._solver
        temporary = solver.n_temporary if isinstance(solver, ProjectedGradient) else 0
        return len(self._centers) + temporary + len(self._pending)

    @property
    def centers(self) -> Numbers:
        """The centers in use, float32 (p, d), a copy."""
        return self._centers.points.copy()

    @property
    def nbytes(self) -> int:
        """Memory of centers, coefficients, matrices and events that are kept, in bytes."""
        own = (self._pending, self._pending_labels, self._pending_coefficients)
        parts = (self._centers, self._solver, self._first)
        others = sum(part.nbytes for part in parts if part is not None)
        return others + sum(array.nbytes for array in own)

    # Learning and predicting

    def finish(self) -> None:
        """Learn the events since the last batch as a batch, though they are fewer."""
        if len(self._pending):
            self._close_block()

    def _outputs_of(self, X: Numbers) -> Numbers:
        F = self._centers.outputs(X)
        if isinstance(self._solver, ProjectedGradient):
            self._solver.add_outputs(X, F)
        outputs = self._n_outputs()
        return np.hstack([F[:, at * outputs : (at + 1) * outputs] for at, _ in self._functions])

    def _take_block(self, X: Numbers, y: Numbers, A: Numbers) -> None:
        T = self._targets(y)
        if self._n_learned < SETTLED:
            part = len(X) / (self._n_learned + len(X))
            self._constant = self._constant + part * (T.mean(axis=0) - self._constant)
        self._n_learned += len(X)
        first = self._first
        if first is not None:
            first.add(X, y)
        choosing = first is not None and first.is_due
        if isinstance(self._solver, ProjectedGradient):
            self._step(self._solver, X, A)
        elif self._solver is not None and not choosing:
            K = self.kernel.pairwise(X, self._centers.points)
            self._solver.learn(K, T, self._constant, self._errors[len(ROWS) :])
        if first is not None and choosing:
            self._choose(first)
        self._store()

    def _step(self, solver: ProjectedGradient, X: Numbers, A: Numbers) -> None:
        """Take a gradient step on a batch whose events have these coefficients by their own rows.

        An own row was ``a_i = -(g_i + sum over j < i of k(x_i, x_j) a_j) / (1 + r)``, which gives
        the residual g_i of the function before the batch.
        """
        K, A = self.kernel.pairwise(X), A[:, : self._n_outputs()]
        solver.learn(X, K, -((1.0 + ROWS[0]) * A + np.tril(K, -1) @ A))

    def _store(self) -> None:
        """Predict by the coefficients that the solver has."""
        if self._solver is None:
            return
        every = np.arange(len(self._centers))
        self._centers.set_coefficients(every, bounded(self._solver.coefficients))

    # Centers

    def add_centers(self, Z: ArrayLike) -> int:
        """Add centers with coefficients of 0: the function stays as it is.

        The direct solver takes the kernels of past events with them to be those of their
        projections on the span of the centers before; "eigenpro" projects the batches since its
        last projection first. Choices of centers yet to come leave them where they are.

        Parameters
        ----------
        Z : array of shape (n, d)

        Returns
        -------
        int
            How many were added: those that lie in the span of others are left out.

        Raises
        ------
        InvalidInput
            If the columns do not fit or a value is not finite.
        """
        points = self._check(Z)
        if self.columns is None:
            self.add_columns(range(points.shape[1]))
        before = len(self._centers)
        if self._first is not None:
            self._first.add_fixed(points)
        self._admit(points)
        self._recent.clear()
        self._store()
        return len(self._centers) - before

    def _choose(self, first: Selection) -> None:
        """Choose centers among all events so far."""
        if first.is_last:
            self._first = None
        if self._is_direct or first.uses_clusters:
            self._replace(first.centers())
        else:
            self._admit(first.more(len(self._centers)))
        self._learn_anew(first)

    def _learn_anew(self, first: Selection) -> None:
        """Learn the first events once more, with other centers: the direct solver does."""
        solver = self._solver
        if isinstance(solver, DirectSolver):
            for X, y in first.blocks:
                solver.equations.add(
                    self.kernel.pairwise(X, self._centers.points), self._targets(y)
                )
            solver.update(self._constant, self._errors[len(ROWS) :])

    def _admit(self, Z: Numbers) -> None:
        """Add those of some points (n, d) that are apart from the span of the centers."""
        solver, old = self._solver, self._centers.points
        if solver is None:
            self._replace(Z)
            return
        K, B = None, np.zeros((len(old), len(Z)))
        if not self._has_matrix:
            Z = unrepeated(np.concatenate([old, Z]))[len(old) :]
        else:
            K = self.kernel.pairwise(np.concatenate([old, Z]))
            p = len(old)
            B = ExactProjection(K[:p, :p]).solve(old, K[:p, p:], B, 0)
            some = apart(K[p:, p:] - K[p:, :p] @ B, float(K[0, 0]))
            every = np.append(np.arange(p), p + some)
            Z, B, K = Z[some], B[:, some], K[np.ix_(every, every)]
        if not len(Z):
            return
        if isinstance(solver, ProjectedGradient):
            solver.project()
        A = np.pad(solver.coefficients, ((0, len(Z)), (0, 0)))
        self._set_centers(np.concatenate([old, Z]), K, A)
        if isinstance(solver, DirectSolver) and K is not None:
            solver.grow(K, B)
            self._solver = solver

    def _replace(self, Z: Numbers) -> None:
        """Have other centers; gradient steps go on from the projection on their span."""
        solver, before, K = self._solver, self._centers.points, None
        if self._has_matrix:
            K = self.kernel.pairwise(Z)
            some = apart(K)
            Z, K = Z[some], K[np.ix_(some, some)]
        else:
            Z = unrepeated(Z)
        if isinstance(solver, ProjectedGradient):
            solver.project()
        self._set_centers(Z, K)
        if isinstance(solver, ProjectedGradient) and isinstance(self._solver, ProjectedGradient):
            h = self.kernel.product(Z, before, solver.coefficients)
            self._solver.begin_at(h)

    def _set_centers(self, Z: Numbers, K: Numbers | None, A: Numbers | None = None) -> None:
        """Have centers Z (p, d) with K = K(Z, Z) and coefficients A (p, stored), 0 by default."""
        self._centers = Centers(self.kernel, len(Z), n_columns=Z.shape[1], n_outputs=self._stored)
        A = np.zeros((len(Z), self._stored)) if A is None else A
        self._centers.append(Z, np.zeros(len(Z)), A)
        if K is not None and self._is_direct:
            self._solver = DirectSolver(
                K,
                ridges=self._candidates,
                n_outputs=self._n_outputs(),
                forgetting=self.forgetting,
            )
        else:
            self._solver = ProjectedGradient(
                self.kernel, Z, A, batch_size=self._block, seed=self.seed, K=K
            )

    # Columns and outputs

    def _add_center_columns(self, count: int) -> None:
        self._centers.add_columns(count)
        if self._first is not None:
            self._first.add_columns(count)
        if isinstance(self._solver, ProjectedGradient):
            self._solver.add_columns(self._centers.points)

    def _fit_centers(self, fitted: Callable[[Numbers], Numbers]) -> None:
        if self._solver is None:
            self._centers.set_outputs(np.zeros((0, self._stored)))
            return
        self._solver.set_outputs(fitted, self._n_outputs())
        self._centers.set_outputs(bounded(self._solver.coefficients))

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        solver, first = self._solver, self._first
        header = {
            **self._header(),
            "n_learned": self._n_learned,
            "choosing": first is not None,
            "turn": 0 if solver is None else solver.turn,
        }
        arrays = {"centers": self.centers, **self._block_arrays()}
        for part in (first, solver):
            arrays |= {} if part is None else part.arrays()
        return State(header, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the learner whose state this is.

        Raises
        ------
        StateError
            If the state is another learner's or of a newer format, or is damaged.
        """
        learner, owner = cls._from_header(state), cls._owner()
        learner._n_learned = count(state.header, "n_learned", owner)
        declared = (Declared("centers", "float32", ("centers", "columns")),)
        found, sizes = taken(declared, state.arrays, learner._sizes(), owner)
        learner._first = None
        if state.header["choosing"]:
            learner._first = learner._new_selection()
            sizes |= {"first": learner._n_learned}
            learner._first.load(state.arrays, sizes, learner._label_domain, owner)
        if sizes["centers"]:
            learner._load_solver(state, found["centers"])
        learner._load_block(state.arrays)
        learner._store()
        return learner

    def _load_solver(self, state: State, Z: Numbers) -> None:
        """Take the centers of a state and all that belongs to them."""
        if len(unrepeated(Z)) < len(Z):
            raise StateError(f"array 'centers' of {self._owner()} has repeated rows")
        K = self.kernel.pairwise(Z) if self._has_matrix else None
        try:
            self._set_centers(Z.copy(), K)
        except np.linalg.LinAlgError:
            raise StateError(
                f"array 'centers' of {self._owner()} has a center in the span of others"
            ) from None
        assert self._solver is not None
        self._solver.load(state.arrays, count(state.header, "turn", self._owner()), self._owner())

    # Merging

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        While one of them still keeps all its events, to choose centers, the other learns these.
        Else normal equations are added, those of the other brought to the centers here by
        projection, less the part of the common events, taken to be their share; with the same
        centers and no common events that is what one learner of all events would have. Of gradient
        steps the two functions are averaged, each by its events since.

        Parameters
        ----------
        other : EigenPro
        common_events : int, default 0
            Events that the last common state had learned.

        Raises
        ------
        InvalidInput
            If the learners differ in an option, naming it, or have fewer events than that.
        """
        mine = self.n_events - common_events

        def events_of(other: Self, others: int) -> tuple[Numbers, Numbers]:
            X, y = other._pending, other._pending_labels
            if other._first is None:
                self._join(other, mine, others)
            elif other._first.blocks:
                X = np.concatenate([other._first.events, X])[-others:]
                y = np.concatenate([other._first.labels, y])[-others:]
            return X, y

        merge_by_events(self, other, common_events, events_of)

    def _join(self, other: Self, mine: int, others: int) -> None:
        """Take in another's coefficients, or sums, but not its events since the last batch."""
        self.add_classes(other.classes)
        copy = type(self).from_state(other.state())
        copy.add_classes(self.classes)
        theirs, solver = copy._centers.points, copy._solver
        if solver is None:
            return
        Z = np.zeros((len(theirs), len(self.columns or ())), np.float32)
        Z[:, [(self.columns or ()).index(name) for name in copy.columns or ()]] = theirs
        solver.align(partial(self._aligned, copy.classes))
        first, self._first = self._first, None
        if first is not None:  # its centers are chosen, those here would be yet
            self._replace(Z)
            self._learn_anew(first)
        share = others / copy._n_learned
        if isinstance(solver, DirectSolver) and isinstance(self._solver, DirectSolver):
            C = self.kernel.pairwise(Z, self._centers.points)
            self._solver.join(solver, C, min(1.0, share), self._constant)
        elif isinstance(solver, ProjectedGradient) and isinstance(self._solver, ProjectedGradient):
            solver.project()
            h = self.kernel.product(self._centers.points, Z, solver.coefficients)
            part = others / (mine + others)
            self._solver.average(h, part)
            c = self._aligned(copy.classes, copy._constant[None])[0]
            self._constant = (1.0 - part) * self._constant + part * c
        self._n_learned += others
        self._store()

    def _aligned(self, there: Sequence[Label], A: Numbers) -> Numbers:
        """Return another's numbers (n, outputs), once or for each function, in the order here."""
        outputs = self._n_outputs()
        parts = np.split(A, A.shape[1] // outputs, axis=1)
        return np.hstack([aligned(part, there, self.classes, outputs, self.loss) for part in parts])
