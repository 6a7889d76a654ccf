"""Kernel models with centers chosen apart from the events that they learn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.declared import Declared, count, reading, taken
from streamk.errors import InvalidInput
from streamk.features.columns import Column
from streamk.features.random_features import check_events
from streamk.kernels import Kernel
from streamk.learners.centers import SETTLED, OnCenters
from streamk.learners.common.classes import MOST_CLASSES, Label, aligned
from streamk.learners.common.merging import merge_by_events
from streamk.learners.common.options import GIVEN, KERNEL, MAX_CLASSES, SEED
from streamk.learners.eigenpro.centered import CenteredFunctions, Solving, check_selection
from streamk.learners.eigenpro.projection import check_apart, unrepeated
from streamk.learners.eigenpro.selection import METHODS, CenterSelection
from streamk.learners.eigenpro.shards import Shards, placement
from streamk.options import Choice, Option, Real, Whole, documented
from streamk.state import State

Numbers = NDArray[Any]

REVISITED = 8192
"""Events up to which gradient steps learn all of them again when centers are chosen.

Later on these take longer than a stream waits for, and gain little beside the steps before.
"""
ROWS = (0.5, 4.0, np.inf)
"""Regularizations of events' own rows until their batch is learned; infinite, they are none.

Where an event tells of those right after it, they are worth a lot; where it does not, they are
noise. The one with the least squared error is asked.
"""


_GIVEN = {
    "centers": Option(
        type="array of shape (p, d)",
        doc="The centers, if they are known; they are learned with from the first batch on. Their "
        "number is `n_centers`, and `selection` chooses none: leave both out. Behind `Scaled` "
        "they are in its units.",
    ),
    "shards": Option(
        type="Shards",
        doc="Among which the centers are divided instead of GPUs, such as "
        "`streamk.distributed.ActorShards`.",
    ),
}


@documented(GIVEN | _GIVEN)
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
    them anew on each choice; "eigenpro" adds the new ones with coefficients of 0, and learns up to
    8,192 events once more.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, is one of the other solver or chooses centers where they
        are given, or a given center is not finite or lies in the span of the others.
    BackendUnavailable
        If "cupy" finds no GPU, or fewer than `devices`; with the first batch if "k-means" finds no
        scikit-learn.

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
    OPTIONS: ClassVar[dict[str, Option]] = {
        "kernel": KERNEL,
        "n_centers": Whole(
            least=2,
            about="points that carry the function",
            doc="Points that carry the function, chosen among the events. Those whose kernels lie "
            "in the span of others are left out.",
        ),
        "selection": Choice(
            choices=METHODS,
            about=f"of centers: {', '.join(METHODS)}",
            doc="How centers are chosen among the events. The others do so once there are four "
            'events for each center, and centers are random until then: "k-means" takes centres of '
            'clusters, and needs scikit-learn; "oasis" and "rpcholesky" take events whose kernels '
            "are far from the span of those taken, as the functions of these names in "
            "`streamk.landmarks` do, up to 11,585 centers.",
        ),
        "solver": Choice(
            choices=("auto", "direct", "eigenpro"),
            about="auto, direct or eigenpro",
            doc='Normal equations, or EigenPro\'s gradient steps; "auto" is "direct" up to 8,192 '
            "centers, where its matrices take 2 GiB.",
        ),
        "regularization": Real(
            open_below=True,
            optional=True,
            about="of direct: variance of labels' noise (chosen by itself)",
            doc='Of "direct": the variance of the labels\' noise for a function of variance 1. By '
            "default one of .1, .5, 2 and 8, as of `streamk.learners.OnlineKernelRidge`.",
        ),
        "forgetting": Real(
            open_below=True,
            most=1.0,
            about="of direct: what an event counts after the next",
            doc='Of "direct": an event counts by this factor less for each one after it.',
        ),
        "batch_size": Whole(least=2, most=2048, about="events that are learned together"),
        "seed": SEED,
        "max_classes": MAX_CLASSES,
        "backend": Choice(
            choices=("auto", "cupy"),
            saved=False,
            about="auto or cupy",
            doc='With "cupy" the centers are divided among GPUs, which evaluate the kernels with '
            "them, in single precision, for predictions and for inexact projections. The host "
            "keeps a copy, and does all else.",
        ),
        "devices": Whole(
            optional=True,
            saved=False,
            about="of cupy: GPUs (all)",
            doc='Of "cupy": so many GPUs, all that CuPy sees by default. Results depend on their '
            "number, by the rounding of sums.",
        ),
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
        backend: str = "auto",
        devices: int | None = None,
        shards: Shards | None = None,
    ) -> None:
        given = None if centers is None else check_events(centers, np.dtype(np.float32), columns)
        if given is not None:
            _check_chosen(len(given), n_centers=n_centers, selection=selection)
        self.n_centers = n_centers if given is None else len(given)
        self.selection, self.solver, self.batch_size = selection, solver, batch_size
        self.regularization, self.forgetting, self.seed = regularization, forgetting, seed
        self.backend, self.devices, self.shards = backend, devices, shards
        options.check({name: self.OPTIONS[name] for name in ("n_centers", "solver")}, self)
        check_selection(selection, self.n_centers)
        self._solving = Solving.of(
            solver, self.n_centers, regularization, forgetting, batch_size=batch_size, seed=seed
        )
        super().__init__(
            kernel,
            task=task,
            ridges=[row for _, row in self._functions],
            block=batch_size,
            classes=classes,
            max_classes=max_classes,
        )
        self._n_learned = 0
        self._first: CenterSelection | None = self._new_selection() if given is None else None
        """Events among which centers are chosen; None once they are."""
        self._centered = CenteredFunctions(
            kernel,
            self._solving,
            n_outputs=self._n_outputs(),
            placement=placement(backend, devices, shards),
        )
        if given is not None and columns is None:
            columns = range(given.shape[1])
        if columns is not None:
            self.add_columns(columns)
        if given is not None:
            self._take_given(given)

    def _new_selection(self) -> CenterSelection:
        return CenterSelection(
            self.n_centers, method=self.selection, kernel=self.kernel, seed=self.seed
        )

    def _take_given(self, Z: Numbers) -> None:
        """Take the centers that the caller has."""
        K = self.kernel.pairwise(Z) if self._solving.has_matrix else None
        if K is not None:
            check_apart(K)
        elif len(unrepeated(Z)) < len(Z):
            raise InvalidInput(
                f"some of the {len(Z)} centers are the same; leave repeated ones out"
            )
        self._centered.set_centers(Z, K)

    # What it is

    @property
    def _functions(self) -> tuple[tuple[int, float], ...]:
        """The solver's function and the regularization of own rows of each that is followed."""
        many = self._solving.functions
        if not self._solving.direct:
            return tuple((function, row) for function in range(many) for row in ROWS)
        asked = tuple((0, row) for row in ROWS)
        return asked + tuple((function, np.inf) for function in range(1, many))

    @property
    def chosen_regularization(self) -> float:
        """The regularization of the direct solver's function, 0 of the other one's."""
        how, centered = self._solving, self._centered
        turn = len(how.ridges) // 2 if centered.solver is None else centered.turn
        return how.ridges[turn] if how.direct else 0.0

    @property
    def _best(self) -> int:
        """The function that is asked."""
        return int(np.argmin(self._errors[: len(ROWS)] if self._solving.direct else self._errors))

    @property
    def n_features(self) -> int:
        """Centers in use."""
        return len(self._centered)

    @property
    def centers(self) -> Numbers:
        """The centers in use, float32 (p, d), a copy."""
        return self._centered.points.copy()

    @property
    def nbytes(self) -> int:
        """Memory of centers, coefficients, matrices and events that are kept, in bytes."""
        own = (self._pending, self._pending_labels, self._pending_coefficients)
        first = 0 if self._first is None else self._first.nbytes
        return self._centered.nbytes + first + sum(array.nbytes for array in own)

    # Learning and predicting

    def finish(self) -> None:
        """Learn the events since the last batch as a batch, though they are fewer."""
        if len(self._pending):
            self._close_block()

    def _outputs_of(self, X: Numbers) -> Numbers:
        F, outputs = self._centered.outputs(X), self._n_outputs()
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
        self._centered.step(X, A[:, : self._n_outputs()], ROWS[0])
        if first is not None and choosing:
            self._choose(first)
        else:
            self._centered.equate(X, T)
            self._solve()

    def _solve(self) -> None:
        """Bring the direct solver's functions to its equations.

        With forgetting the constant is the mean of the targets that count, whenever all functions
        are solved for anew.
        """
        if self._solving.forgetting < 1.0:
            self._constant = self._centered.recent_mean(self._constant)
        self._centered.solve(self._constant, self._errors[len(ROWS) :])

    def _centers_of(self, place: int) -> tuple[Numbers, Numbers]:
        outputs, (at, _) = self._n_outputs(), self._functions[place]
        A = self._centered.coefficients
        return self._centered.points, A[:, at * outputs : (at + 1) * outputs]

    # Centers

    def add_centers(self, Z: ArrayLike) -> int:
        """Add centers with coefficients of 0: the function stays as it is.

        The direct solver takes the kernels of past events with them to be those of their
        projections on the span of the centers before; "eigenpro" projects the batches since its
        last projection first. Choices of centers yet to come leave them where they are.

        Returns how many of Z (n, d) were added: those that lie in the span of others are left out.
        Raises `InvalidInput` if the columns do not fit or a value is not finite.
        """
        points = self._check(Z)
        if self.columns is None:
            self.add_columns(range(points.shape[1]))
        before = len(self._centered)
        if self._first is not None:
            self._first.add_fixed(points)
        self._centered.admit(points)
        self._recent.clear()
        return len(self._centered) - before

    def _choose(self, first: CenterSelection) -> None:
        """Choose centers among all events so far."""
        if first.is_last:
            self._first = None
        if self._solving.direct or first.replaces:
            self._centered.replace(first.centers())
        else:
            self._centered.admit(first.more(len(self._centered)))
        self._learn_anew(first)

    def _learn_anew(self, first: CenterSelection) -> None:
        """Learn the first events once more, with other centers; by steps if they are not many."""
        again = self._n_learned <= REVISITED
        for X, y in first.blocks:
            T = self._targets(y)
            self._centered.equate(X, T)
            if again:
                self._centered.step_again(X, T - self._constant)
        self._solve()

    # Columns and outputs

    def _add_columns(self, count: int) -> None:
        super()._add_columns(count)
        self._centered.add_columns(count)
        if self._first is not None:
            self._first.add_columns(count)

    def _fit_centers(self, fitted: Callable[[Numbers], Numbers]) -> None:
        self._centered.set_outputs(fitted, self._n_outputs())

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        first = self._first
        header = {
            **self._header(),
            "n_learned": self._n_learned,
            "choosing": first is not None,
            "turn": self._centered.turn,
        }
        arrays = {**self._centered.arrays(), **self._block_arrays()}
        return State(header, arrays if first is None else {**arrays, **first.arrays()})

    @property
    def placing(self) -> dict[str, Any]:
        """Backend, devices and shards."""
        return {"backend": self.backend, "devices": self.devices, "shards": self.shards}

    @classmethod
    def from_state(
        cls,
        state: State,
        *,
        backend: str = "auto",
        devices: int | None = None,
        shards: Shards | None = None,
    ) -> Self:
        """Return the learner of a state, with its centers placed as asked.

        Raises
        ------
        StateError
            If the state is another learner's, or is damaged.
        InvalidInput, BackendUnavailable
            As of the constructor, if that place cannot be had.
        """
        place: dict[str, Any] = {"backend": backend, "devices": devices, "shards": shards}
        for name in ("backend", "devices"):
            cls.OPTIONS[name].check(name, place[name])
        placement(**place)  # a fault of these is none of the state
        learner, owner = cls._from_header(state, **place), cls._owner()
        learner._n_learned = count(state.header, "n_learned", owner)
        declared = (Declared("centers", "float32", ("centers", "columns")),)
        found, sizes = taken(declared, state.arrays, learner._sizes(), owner)
        learner._first = None
        with reading(owner):
            choosing = bool(state.header["choosing"])
        if choosing:
            learner._first = learner._new_selection()
            sizes |= {"first": learner._n_learned}
            learner._first.load(state.arrays, sizes, learner._label_domain, owner)
        if sizes["centers"]:
            turn = count(state.header, "turn", owner)
            learner._centered.load(found["centers"], state.arrays, turn, owner)
        learner._load_block(state)
        return learner

    # Merging

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        While one of them still keeps all its events, to choose centers, the other learns these.
        Else normal equations are added, those of the other brought to the centers here by
        projection, less the part of the common events, taken to be their share; with the same
        centers and no common events that is what one learner of all events would have. Of gradient
        steps the two functions are averaged, each by its events since.
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
        copy = type(self).from_state(other.state(), **other.placing)
        copy.add_classes(self.classes)
        theirs, solver = copy._centered.points, copy._centered.solver
        if solver is None:
            return
        Z = np.zeros((len(theirs), len(self.columns or ())), np.float32)
        Z[:, [(self.columns or ()).index(name) for name in copy.columns or ()]] = theirs
        solver.align(partial(self._aligned, copy.classes))
        first, self._first = self._first, None
        if first is not None:  # its centers are chosen, those here would be yet
            self._centered.replace(Z)
            self._learn_anew(first)
        part, share = others / (mine + others), min(1.0, others / copy._n_learned)
        self._centered.join(copy._centered, Z, part, share, self._constant)
        if not self._solving.direct:
            c = self._aligned(copy.classes, copy._constant[None])[0]
            self._constant = (1.0 - part) * self._constant + part * c
        self._n_learned += others
        self._recent.clear()

    def _aligned(self, there: Sequence[Label], A: Numbers) -> Numbers:
        """Return another's numbers (n, outputs), once or for each function, in the order here."""
        outputs = self._n_outputs()
        parts = np.split(A, A.shape[1] // outputs, axis=1)
        return np.hstack([aligned(part, there, self.classes, outputs, self.loss) for part in parts])


def _check_chosen(count: int, **options: Any) -> None:
    """Raise InvalidInput if an option that chooses centers is given beside so many centers."""
    parameters = inspect.signature(EigenPro).parameters
    for name, value in options.items():
        if value != parameters[name].default:
            raise InvalidInput(
                f"{name}={value!r} is for centers that the learner chooses, but centers= gives "
                f"{count}; leave {name} out"
            )
