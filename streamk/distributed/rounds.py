"""One model that learns in rounds, the events of which are divided among shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.distributed.actors import Closing
from streamk.distributed.division import MessageWorkers, TaskDivision
from streamk.distributed.processes import Processes
from streamk.errors import InvalidInput, shown
from streamk.learners.base import Learner
from streamk.learners.common.prequential import Followed, Prequential, joined_by_class
from streamk.learners.registry import from_state
from streamk.learners.sharded.learner import MOST_SHARDS
from streamk.learners.sharded.reduction import reduced
from streamk.learners.sharded.replicas import Answer, Batch, Task, for_shards, merging, work
from streamk.state import State

Events: TypeAlias = (
    "Batch | tuple[ArrayLike, Sequence[Any] | NDArray[Any]] "
    "| tuple[ArrayLike, Sequence[Any] | NDArray[Any], Sequence[Any] | None] | None"
)
"""Of one shard: those of a `Batch`, or None for no events."""


class Rounds(Closing):
    """A model that learns from several shards of a stream at once, in rounds.

    Every shard begins a round with a replica of the model. It predicts its events one by one and
    learns each after its prediction. At the end of the round the replicas of the shards that
    learned something are merged, by `streamk.learners.Learner.merge`, in a fixed binary tree over
    the shards, and what comes of it is the model of the next round. Columns and classes that are
    new come in the order of the shards.

    What is learned depends on the model, the number of shards and their events alone: predictions
    and states are the same bits for any number of workers, and after a worker's death. A shard does
    not know what the others learn in the same round, so the more events a round has, the older is
    what its predictions go by. Predictions whose labels come in a later round are not remembered:
    such an event is learned as if it had been predicted just then.

    Parameters
    ----------
    model : Learner or State
        It stays as it is. A new one of many kernels is learned without the external expert that it
        has by default, as in `streamk.learners.Sharded`.
    shards : int, default 16
        Up to 4096.
    workers : int or MessageWorkers, default 1
        1 for this process alone, more for so many processes of this machine; or workers of another
        kind, which are closed with this object.

    Raises
    ------
    InvalidInput
        If there are no shards, or not from 1 worker to as many as there are shards.
    StateError
        If no learner has such a state.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import create
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] > 0.0, "right", "left")
    >>> rounds = Rounds(create("doubly-stochastic", task="classification"), shards=4)
    >>> for first in range(0, 400, 80):
    ...     some = [slice(n, n + 20) for n in range(first, first + 80, 20)]
    ...     answers = rounds.round([(X[part], y[part]) for part in some])
    >>> rounds.model.n_events, len(answers), answers[0].predictions.shape
    (400, 4, (20,))
    >>> bool(np.mean(answers[3].predictions == y[some[3]]) > 0.8)
    True
    """

    def __init__(
        self, model: Learner | State, *, shards: int = 16, workers: int | MessageWorkers = 1
    ) -> None:
        self._shards = _count("shards", shards, MOST_SHARDS)
        self._placing: dict[str, Any] = {}
        if isinstance(model, State):
            self._state = model
        else:
            learner = for_shards(model)
            self._state, self._placing = learner.state(), learner.placing
        self._model = from_state(self._state, **self._placing)
        self._rounds = 0
        self._workers: TaskDivision | None = None
        if isinstance(workers, int):
            if _count("workers", workers, shards) > 1:
                self._workers = TaskDivision(Processes(workers))
        else:
            _count("workers", len(workers), shards)
            self._workers = TaskDivision(workers)

    @property
    def model(self) -> Learner:
        """The model after the last round: another object each time, not to be changed."""
        return self._model

    @property
    def shards(self) -> int:
        """Number of shards."""
        return self._shards

    @property
    def n_rounds(self) -> int:
        """Number of rounds so far."""
        return self._rounds

    def state(self) -> State:
        """Return the state of the model after the last round."""
        return self._state

    def round(self, batches: Sequence[Events]) -> list[Prequential]:
        """Have each shard predict its events in turn and learn them; merge what they learned.

        Parameters
        ----------
        batches : sequence of Batch, (X, y) or None
            One for each shard, of as many events as one likes: X of shape (n, d), n labels, None
            where one is not known, and, if they are not those of the model, names of the columns.

        Returns
        -------
        list of Prequential
            For each shard, with the probabilities of all classes known after the round, in their
            order; NaN where the shard did not know a class.

        Raises
        ------
        InvalidInput
            If there is not one batch for each shard, or the events of one cannot be used, naming
            the shard. Then nothing is learned.
        WorkerLost
            If a worker dies too often. Then nothing is learned.
        """
        given = self._checked(batches)
        task = Task(self._state, self._placing, self._shards, (0, self._shards), given)
        found = work(task, from_state) if self._workers is None else self._workers.work(task)
        spans = {span: from_state(state, **self._placing) for span, state in found.states.items()}
        merge = merging(self._model.n_events, lambda: self._model)
        merged = reduced((0, self._shards), spans.get, _nothing, merge)
        if merged is not None:
            self._state = merged.state()
            self._model = from_state(self._state, **self._placing)
        self._rounds += 1
        return [self._answer(found.answers.get(shard)) for shard in range(self._shards)]

    def close(self) -> None:
        """End the workers; the model stays."""
        if self._workers is not None:
            self._workers.close()

    def _checked(self, batches: Sequence[Events]) -> dict[int, Batch]:
        """Return the batches of the shards that have events."""
        if len(batches) != self._shards:
            raise InvalidInput(
                f"{len(batches)} batches came for {self._shards} shards; give one for each, None "
                "for a shard without events"
            )
        found = {}
        widths = set() if self._model.columns is None else {len(self._model.columns)}
        for shard, batch in enumerate(batches):
            if batch is None:
                continue
            plain = _plain(shard, Batch(*batch))
            if not len(np.asarray(plain.X)):
                continue
            if plain.columns is None:
                widths.add(np.asarray(plain.X).shape[1])
            if len(widths) > 1:
                raise InvalidInput(
                    f"shard {shard}: events of {np.asarray(plain.X).shape[1]} columns, where the "
                    f"model or another shard has {min(widths)} or {max(widths)}; give all the same "
                    "ones, or the names of the columns with each batch"
                )
            found[shard] = plain
        return found

    def _answer(self, found: Answer | None) -> Prequential:
        """Return the predictions of a shard with probabilities of the model's classes."""
        classifies, classes = self._model.is_classifier, self._model.classes
        if found is None:
            nothing: NDArray[Any] = np.empty(0, object if classifies else np.float64)
            return Prequential(nothing, np.empty((0, len(classes))) if classifies else None)
        some = Followed(found.prequential, found.classes)
        return joined_by_class([some], classes if classifies else None)


def _count(name: str, value: Any, most: int) -> int:
    """Return a number from 1 to `most`, or raise InvalidInput."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidInput(f"{name}={shown(value)} must be an int from 1 to {most}")
    return value


def _nothing(_: int) -> None:
    """Return None, for a shard that learned nothing."""


def _plain(shard: int, batch: Batch) -> Batch:
    """Return a batch as an array of numbers, and an array of numbers or a list of plain labels."""
    X, y = np.asarray(batch.X), batch.y
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InvalidInput(
            f"shard {shard}: events must be numbers of shape (n, columns), not "
            f"{X.dtype} of shape {X.shape}"
        )
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
        return Batch(X, y, batch.columns)
    labels = [label.item() if isinstance(label, np.generic) else label for label in y]
    for row, label in enumerate(labels):
        if not isinstance(label, str | int | float | None):
            raise InvalidInput(
                f"shard {shard}: row {row}: label {label!r} is a {type(label).__name__}; labels "
                "are str, int, bool, numbers or None"
            )
    return Batch(X, labels, batch.columns)
