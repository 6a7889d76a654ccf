"""The learner by doubly stochastic functional gradients (Dai et al. 2014), and its mini-batches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import backends, options
from streamk.backends import BACKENDS
from streamk.declared import Declared, Domain, count, listed, number, reading, taken
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.features.random_features import check_range, check_seed
from streamk.features.samplers import SAMPLERS, check_sampler
from streamk.kernels import Kernel
from streamk.kernels.base import check_dtype
from streamk.learners.common.classes import MOST_CLASSES, Label
from streamk.learners.common.merging import check_mergeable, events_apart
from streamk.learners.common.optimizers import curvature
from streamk.learners.common.options import (
    GIVEN,
    LOSS,
    MAX_CLASSES,
    OF_DOMAIN,
    SEED,
    THREADS,
    of_kernel,
)
from streamk.learners.common.predictor import one_row
from streamk.learners.common.steps import AdaGrad, Constant, Ladder, Step, step_from_json
from streamk.learners.common.supervised import Asked, Supervised
from streamk.learners.doubly_stochastic.function import Coefficients, KernelFunction
from streamk.learners.doubly_stochastic.preconditioned import PreconditionedFunction
from streamk.learners.doubly_stochastic.several_steps import SeveralSteps
from streamk.losses import Loss
from streamk.options import Choice, Flag, Made, Option, Real, Whole, documented
from streamk.state import State

_OWNER = "this 'doubly-stochastic' state"
_SCALES = Domain(least=-(2.0**60), most=2.0**60)
"""Of the coefficients: larger and smaller ones than `SCALES` has are multiplied into these."""
_FIRST_FEATURES, _FIRST_COEFFICIENTS = 1 << 20, 1 << 24
"""Of the first step of a learner that is made from a state."""
_OF_FUNCTION = (
    *("seed", "step", "regularization", "block_size", "max_features"),
    *("cache_bytes", "sampler", "dtype", "threads"),
)
"""Options that a learner hands on to its function."""


def share_columns(one: KernelFunction, other: KernelFunction) -> None:
    """Give a function the columns that another has besides.

    Raises `InvalidInput` if features depend on the columns' places, and these differ.
    """
    mine, theirs = one.columns or (), other.columns or ()
    if not one.by_place:
        new = tuple(name for name in theirs if name not in mine)
        if new:
            one.add_columns(new)
        return
    groups = zip(one.widths, other.widths, strict=False) if mine and theirs else ()
    for what, pairs in (
        ("columns", zip(mine, theirs, strict=False)),
        ("groups of columns", groups),
    ):
        for place, (here, there) in enumerate(pairs):
            if here != there:
                choice = "" if one.sampler == "iid" else ", or choose sampler='iid'"
                raise InvalidInput(
                    f"cannot merge learners of sampler {one.sampler!r} that differ in their "
                    f"{what}: {here!r} and {there!r} in place {place}; give both the same columns "
                    f"in the same order before they learn{choice}"
                )
    if len(theirs) > len(mine):
        one.add_columns(theirs[len(mine) :], other.widths)


def matched(
    theirs: Coefficients,
    there: Sequence[Label],
    here: Sequence[Label],
    *,
    n_outputs: int,
    loss: Loss,
) -> Coefficients:
    """Return a copy of another learner's coefficients with its outputs in this learner's order.

    `there` are the other's classes, and `here` this learner's, which has all of them and
    `n_outputs` outputs.
    """
    copy = theirs.copy()
    if copy.n_outputs == n_outputs and tuple(there) == tuple(here):
        return copy
    if copy.n_outputs > 1 or n_outputs > 1:
        if copy.n_outputs == 1 and loss.name != "softmax":
            copy.split(loss.split_binary)
        copy.select([there.index(c) if c in there else None for c in here])
    elif there[1:2] != here[1:2] and there[:1] != here[:1]:
        # The one output stands for the second class, and that is the other's first.
        copy.scale = -copy.scale
    return copy


@documented(GIVEN, Raises=OF_DOMAIN)
class DoublyStochastic(Supervised):
    """Kernel learning by doubly stochastic functional gradients, on an endless stream.

    Each step takes a mini-batch of events and the next block of random features, predicts the
    events with the coefficients so far (Algorithm 2) and gives the block's features the
    coefficients ``-gamma_t / m * (mean over the batch of l'(f(x), y) phi(x))`` for a block of m
    (Algorithm 1, step 5); all earlier coefficients shrink by ``1 - gamma_t * regularization``
    (step 6). Features are never stored but as a cache: their frequencies follow from the seed.
    Once there are `max_features`, blocks are visited again in turn.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> from streamk.learners import DoublyStochastic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = DoublyStochastic(Gaussian(bandwidth=0.5), seed=1, max_features=2048)
    >>> model.learn_many(X[:1500], y[:1500])
    >>> model.finish()
    >>> bool((model.predict_many(X[1500:]) == y[1500:]).mean() > 0.9)
    True
    """

    TYPE = "doubly-stochastic"
    _gathered: tuple[NDArray[Any], NDArray[np.float64]]
    """Events (n, d), and their labels as numbers (n,), that wait for the step of a mini-batch."""
    OPTIONS: ClassVar[dict[str, Option]] = {
        "kernel": of_kernel(
            "ntk",
            "power_exponential",
            of_features=True,
            doc="Features of Zonal and Composed depend on the number of columns: those that come "
            "after the first step are refused, InvalidInput.",
        ),
        "loss": LOSS,
        "step": Made(
            kind=Step,
            parse=step_from_json,
            optional=True,
            about="SIZE, RULE:SIZE or ladder, see below (ladder)",
            doc="Step-size rule; with a preconditioner the size is found at each step by default. "
            "`InverseTime` gets the offset of `InverseTime.settled`. `Ladder` asks for no size: it "
            "learns by several and predicts by that of least recent loss.",
        ),
        "regularization": Real(
            about="how fast old coefficients shrink, at least 0",
            doc="Factor of half the squared norm that is added to the loss, the paper's nu.",
        ),
        "preconditioner": Choice(
            choices=("block",),
            optional=True,
            about="block: by the covariance of its features",
            doc="Each step moves its block alone, preconditioned by the covariance of its features "
            "on the events of the step, as in the paper's large experiments: a fraction of the "
            "steps, for streams that do not drift, losses with a curvature, blocks of some hundred "
            "features and large mini-batches. Without `step` its size, and a damping of the "
            "covariance, are those of the least loss by leave-one-out changes of the outputs, see "
            "`streamk.learners.doubly_stochastic.preconditioned`. With one, a mini-batch of fewer "
            "events than the block has features (n of m), as `finish` may leave it, is damped by "
            "m / n; without one, a mini-batch of fewer than 32 is by that or more. A mini-batch "
            "that is not whole moves the function by its part of a step, but for the first.",
        ),
        "averaging": Flag(
            about="true: averages of coefficients predict",
            doc="Whether averages of the preconditioned coefficients predict, of which recent ones "
            "count more (polynomial decay): less noise of a constant step.",
        ),
        "batch_size": Whole(
            about="events a step, with preconditioner two blocks (1)",
            doc="Events a step, twice the block with a preconditioner by default. They are "
            "gathered, in whatever calls they come, until there are so many; the coefficients stay "
            "as they are until then. `finish` takes a step with fewer.",
        ),
        "block_size": Whole(about="random features a step"),
        "max_features": Whole(
            about="where the model stops growing",
            doc="All random features, where the model stops growing. Where it is more than "
            "`block_size`, steps take the blocks in turn.",
        ),
        "max_classes": MAX_CLASSES,
        "cache_bytes": Whole(
            least=0,
            resource=True,
            about="memory to keep random features in",
            doc='Memory for what is kept of the features; 0 keeps nothing. "iid" and "orthogonal" '
            'take 4 bytes a feature and column, "hadamard" 8.4 a feature, and 4.4 more for every '
            "1,024 columns past the first; tensor sketches of degree p take p / 64 bytes a feature "
            "and column.",
        ),
        "sampler": Choice(
            choices=SAMPLERS,
            about="iid, hadamard (fast for many columns) or orthogonal",
            doc='How frequencies are drawn. "hadamard" takes random rotations, for kernels of the '
            "Euclidean distance: faster from some 20 columns on, 30 times at 784, and no less "
            'exact. "orthogonal" takes frequencies of orthogonal directions for the same kernels: '
            'as fast as "iid" once they are kept, slow to make, and up to 20 times less variable. '
            "Features of both depend on the places of the columns: two models merge if they met "
            "them in one order.",
        ),
        "dtype": Choice(
            choices=("float32", "float64"),
            about="float32 or float64",
            doc="Of features and coefficients.",
        ),
        "seed": SEED,
        "threads": THREADS,
        "backend": Choice(
            choices=BACKENDS,
            saved=False,
            about="auto or cupy",
            doc='Where features and steps are computed: "cupy" on a GPU.',
        ),
    }

    def __init__(
        self,
        kernel: Kernel,
        *,
        loss: str | Loss = "softmax",
        task: str | None = None,
        seed: int = 0,
        step: Step | None = None,
        regularization: float = 0.0,
        preconditioner: str | None = None,
        averaging: bool = False,
        batch_size: int | None = None,
        block_size: int = 256,
        max_features: int = 1 << 17,
        cache_bytes: int = 1 << 28,
        sampler: str = "iid",
        dtype: Any = "float32",
        columns: Sequence[Column] | None = None,
        classes: Sequence[Label] = (),
        max_classes: int = MOST_CLASSES,
        threads: int | None = None,
        backend: str = "auto",
    ) -> None:
        self._set_task(loss, task, classes, max_classes)
        self.kernel = kernel
        self.preconditioner, self.averaging = preconditioner, averaging
        self.step = Constant(1.0) if step is None and preconditioner is None else step
        if batch_size is None:
            batch_size = 8 if preconditioner is None else 2 * block_size
        self.seed, self.regularization = check_seed(seed), regularization
        self.batch_size, self.block_size, self.max_features = batch_size, block_size, max_features
        self.cache_bytes, self.threads, self.backend = cache_bytes, threads, backend
        self.sampler, self.dtype = sampler, check_dtype(dtype)
        options.check(self.OPTIONS, self)
        check_sampler(sampler, kernel)
        check_range(0, max_features)
        self._check_preconditioner()
        self.step = self._settled()
        self._function = self._new_function()
        self._begin_batch()
        if columns is not None:
            self.add_columns(columns)

    def _settled(self) -> Step | None:
        """Return the step's rule for these mini-batches."""
        if self.step is None:
            return None
        if self.preconditioner is not None:  # which has divided by the curvature already
            return self.step.settled(curvature=1.0, noise=0.0, events=self.batch_size)
        return self.step.settled(
            curvature=curvature(self.loss, 2) or 1.0,
            noise=1.0 / (self.block_size * self.batch_size),
            events=self.batch_size,
        )

    def _new_function(self) -> KernelFunction:
        """Return the function before the first step."""
        made: dict[str, Any] = {name: getattr(self, name) for name in _OF_FUNCTION}
        made |= {
            "classes": self.is_classifier,
            "n_outputs": self._n_outputs(),
            "backend": backends.select(self.backend),
        }
        if self.preconditioner is not None:
            made |= {"averaging": self.averaging, "batch_size": self.batch_size}
            return PreconditionedFunction(self.kernel, self.loss, **made)
        if isinstance(self.step, Ladder):
            return SeveralSteps(self.kernel, self.loss, batch_size=self.batch_size, **made)
        return KernelFunction(self.kernel, self.loss, **made)

    def _check_preconditioner(self) -> None:
        if self.preconditioner is None:
            if self.averaging:
                raise InvalidInput("averaging=True is for preconditioner='block'; leave it out")
            return
        if isinstance(self.step, AdaGrad | Ladder):
            raise InvalidInput(
                f"step={self.step.name!r} has its own sizes, and so has preconditioner='block'; "
                "leave out one of them"
            )
        if self.batch_size < 2:
            raise InvalidInput(
                f"batch_size={self.batch_size} must be at least 2 with preconditioner='block', "
                "and should be larger than block_size; by default it is twice as large"
            )

    # What it is

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._function.columns

    @property
    def n_features(self) -> int:
        """Random features in use."""
        return self._function.n_features

    @property
    def n_steps(self) -> int:
        """Mini-batches learned, t of Algorithm 1."""
        return self._function.n_steps

    @property
    def nbytes(self) -> int:
        """Memory of coefficients, gathered events and cached features, in bytes."""
        return self._function.nbytes + sum(array.nbytes for array in self._gathered)

    @property
    def n_gathered(self) -> int:
        """Events that wait for the step of their mini-batch; they count among `n_events`."""
        return len(self._gathered[1])

    @property
    def leading_step(self) -> float | None:
        """The step size of a `Ladder` that predicts now; None before the first step."""
        function, step = self._function, self.step
        if not (isinstance(function, SeveralSteps) and isinstance(step, Ladder) and self.n_steps):
            return None
        return step.gammas[function.leader]

    @property
    def coefficients(self) -> NDArray[Any]:
        """Coefficients alpha of Algorithm 1, shape (n_features, n_outputs), a copy."""
        return self._function.dense()

    # Learning

    def _follow(
        self, events: NDArray[Any], numbers: NDArray[np.float64], asked: Asked | None
    ) -> None:
        """Predict and learn events whose labels, NaN where there is none, have their outputs."""
        if self.batch_size == 1:
            self._follow_singly(events, numbers, asked)
            return
        at, known = 0, np.flatnonzero(~np.isnan(numbers))
        while at < len(events):
            wanted = self.batch_size - self.n_gathered
            stop = len(events) if len(known) < wanted else int(known[wanted - 1]) + 1
            if asked is not None:
                asked.add(self.decide_checked(asked.of(events)[at:stop]))
            some, known = known[:wanted], known[wanted:]
            self._gather(events[some], numbers[some])
            at = stop

    def _follow_singly(
        self, events: NDArray[Any], numbers: NDArray[np.float64], asked: Asked | None
    ) -> None:
        """Do `_follow` where each event is a step."""
        function, at = self._function, 0
        rows = ahead = function.put(events)
        if asked is not None and asked.events is not None:
            ahead = function.put(asked.events)
        while at < len(events):
            here = rows[at:]
            there = here if ahead is rows else ahead[at:]
            done, F = function.follow(None if asked is None else there, here, numbers[at:])
            self.n_events += done - int(np.isnan(numbers[at : at + done]).sum())
            if asked is not None:
                asked.add(F)
            at += done
            if at < len(events):  # this one the long way
                if asked is not None:
                    asked.add(self.decide_checked(asked.of(events)[at : at + 1]))
                if not math.isnan(numbers[at]):
                    function.learn(rows[at : at + 1], numbers[at : at + 1])
                    self.n_events += 1
                at += 1

    def _gather(self, events: NDArray[Any], numbers: NDArray[np.float64]) -> None:
        """Take in events, no more than the mini-batch lacks, and take its step if it is whole."""
        whole = self.n_gathered + len(numbers) == self.batch_size
        new = len(numbers)
        if self.n_gathered:
            X, y = self._gathered
            events, numbers = np.concatenate([X, events]), np.concatenate([y, numbers])
        self._gathered = events, numbers
        self.n_events += new - whole
        if whole:
            self.finish()
            self.n_events += 1

    def _begin_batch(self) -> None:
        """Go on with no events that wait for the step of their mini-batch."""
        self._gathered = np.zeros((0, len(self.columns or ())), self.dtype), np.zeros(0)

    def finish(self) -> None:
        """Take the step of a mini-batch that is not whole, with the events gathered so far, if any.

        Raises
        ------
        InvalidInput
            If predictions overflow; the mini-batch is lost then.
        """
        if self.n_gathered:
            X, y = self._gathered
            self._begin_batch()
            self._function.learn(self._function.put(X), y)

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x of shape (d,) with label y: with ``batch_size=1``, by a step."""
        number = self.number(y) if self.batch_size == 1 else None
        if number is None or not self._function.learn_one(x, number):
            self.learn_many(one_row(x), [y])
        else:
            self.n_events += 1

    # Predicting

    def decision_one(self, x: ArrayLike) -> NDArray[np.float64]:
        """Outputs, float64 (n_outputs,), of one event x (d,); see `decision_many`."""
        F = self._function.decide_one(x)
        return self.decision_many(one_row(x))[0] if F is None else F

    def decide_checked(self, events: NDArray[Any]) -> NDArray[np.float64]:
        """Outputs as of `decision_many`, of finite events of the dtype."""
        return self._function.decide(events)

    # Columns and outputs

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        self._function.add_columns(tuple(names))
        X, y = self._gathered
        self._gathered = np.pad(X, ((0, 0), (0, len(names)))), y

    def _fit_outputs(self) -> None:
        """Give new classes their outputs."""
        for coefficients in self._function.every:
            if coefficients.n_outputs == 1 < self._n_outputs() and self.loss.name != "softmax":
                coefficients.split(self.loss.split_binary)
            coefficients.add_outputs(self._n_outputs())

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        header: dict[str, Any] = {
            **self._header(),
            "widths": list(self._function.widths),
            "scale": self._function.coefficients.scale,
            "n_steps": self.n_steps,
        }
        arrays = self._function.coefficients.arrays(self._function.n_chunks)
        more, beside = self._function.saved()
        X, y = self._gathered
        return State(header | more, {**arrays, **beside, "gathered": X, "gathered_labels": y})

    @property
    def placing(self) -> dict[str, Any]:
        """Threads and backend."""
        return {"threads": self.threads, "backend": self.backend}

    @classmethod
    def from_state(cls, state: State, *, threads: int | None = None, backend: str = "auto") -> Self:
        """Return the learner of a state.

        Raises
        ------
        StateError
            If the state is another learner's or damaged. Also if it is of no
            step, and the first one would be on more than 2^20 features or 2^24 coefficients.
        """
        header: dict[str, Any] = dict(state.expect(cls.TYPE).header)
        with reading(_OWNER):
            learner = cls._new(header | {"columns": None}, threads=threads, backend=backend)
            function = learner._function
            widths = tuple(header["widths"])
            if header["columns"] is not None:
                function.add_columns(tuple(listed(header, "columns", _OWNER)), widths)
            if function.widths != widths or sum(widths[:-1]) > len(learner.columns or ()):
                raise ValueError(f"groups {widths} do not hold the columns, or some are not needed")
        function.n_steps = count(header, "n_steps", _OWNER)
        learner.n_events = count(header, "n_events", _OWNER)
        scale = number(header, "scale", _OWNER, _SCALES)
        if not abs(scale) >= 1.0 / _SCALES.most:
            raise StateError(f"'scale' of {_OWNER} is {scale}, too close to 0")
        if function.n_steps and (learner.columns is None or not learner._n_outputs()):
            raise StateError(f"{_OWNER} has taken steps without columns or classes; it is damaged")
        learner._check_first_step()
        function.coefficients.load(state.arrays, function.n_chunks, scale)
        function.load(header, state.arrays, _OWNER)
        learner._load_gathered(state.arrays)
        return learner

    def _load_gathered(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        declared = (
            Declared("gathered", self.dtype.name, ("gathered", "columns")),
            Declared("gathered_labels", "float64", ("gathered",), self._label_domain),
        )
        found, sizes = taken(declared, arrays, {"columns": len(self.columns or ())}, _OWNER)
        if not sizes["gathered"] < self.batch_size:  # or a step would have been taken
            raise StateError(
                f"{sizes['gathered']} gathered events do not fit batch_size={self.batch_size}"
            )
        self._gathered = found["gathered"].copy(), found["gathered_labels"].copy()

    def _check_first_step(self) -> None:
        """Raise StateError if a first step took memory that nothing in the state bears out.

        After it the coefficients that there are tell how many one step moves.
        """
        features = min(self.block_size, self.max_features)
        if self.n_steps == 0 and (
            features > _FIRST_FEATURES or features * self._n_outputs() > _FIRST_COEFFICIENTS
        ):
            raise StateError(
                f"{_OWNER} has taken no step, and its first one would be on {features:,} features "
                f"of {self._n_outputs()} outputs by its 'block_size' and 'max_features'; make a "
                "new learner instead"
            )

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        Each learner's change since their last common state counts by its share w of the events
        learned since: ``base + w (self - base) + (1 - w) (other - base)``. The weights add up to
        1, so the base cancels and only its number of events is needed. Both must have the same
        options and seed: their random features are then the same ones. Where there is something to
        take in, mini-batches are finished first: this learner's, and the other's in a copy.
        """
        check_mergeable(self, other, ("is_classifier", *options.shared(self.OPTIONS)))
        mine, others = events_apart(self, other, common_events)
        if others == 0:
            return
        self.finish()
        if other.n_gathered:
            other = type(self).from_state(other.state(), backend=other.backend)
            other.finish()
        function = self._function
        share_columns(function, other._function)
        self._begin_batch()
        if self.is_classifier:
            self._classes.add(other.classes)
            self._fit_outputs()
        function.n_steps = max(self.n_steps, other.n_steps)
        for ours, learned in zip(function.every, other._function.every, strict=True):
            theirs = matched(
                learned, other.classes, self.classes, n_outputs=ours.n_outputs, loss=self.loss
            )
            ours.mix(theirs, mine / (mine + others))
        function.mix(other._function, mine / (mine + others))
        self.n_events += others
