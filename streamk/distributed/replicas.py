"""A worker's part of a round: its shards learn on replicas, which it merges as far as it can.

All of it is a function of the common state and the events, so that another worker can do it again
with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput
from streamk.features.columns import Column
from streamk.learners.base import Learner
from streamk.learners.common.classes import Label
from streamk.learners.common.prequential import Prequential
from streamk.learners.reduction import Span, reduced, subtrees
from streamk.learners.registry import from_state
from streamk.state import State


class Batch(NamedTuple):
    """The events of one shard in a round.

    Attributes
    ----------
    X : array of shape (n, d)
    y : sequence of n labels
        None where a label is not known.
    columns : sequence of d names, optional
        Of the columns of X; by default those of the model, in its order. New ones become columns of
        the model, in which all events so far were zero; in those left out these events are zero.
    """

    X: ArrayLike
    y: Sequence[Any] | NDArray[Any]
    columns: Sequence[Column] | None = None


class Answer(NamedTuple):
    """The predictions of a shard's events, and the classes that its probabilities are of."""

    prequential: Prequential
    classes: tuple[Label, ...]


@dataclass(frozen=True)
class Task:
    """The part of a round that a worker is asked to do.

    Attributes
    ----------
    state : State
        The common one, with which every shard begins.
    placing : mapping
        Of the replicas, see `streamk.learners.Learner.placing`.
    shards : int
        In all.
    within : (int, int)
        The worker's: the first shard, and the one after the last.
    batches : mapping of int to Batch
        By the number of the shard; a shard without events is left out.
    """

    state: State
    placing: Mapping[str, Any]
    shards: int
    within: Span
    batches: Mapping[int, Batch]


@dataclass
class Outcome:
    """The predictions and states that a worker hands back.

    Attributes
    ----------
    answers : dict of int to Answer
        By the number of the shard.
    states : dict of (int, int) to State
        Of the largest subtrees that are the worker's own; those that learned nothing are left out.
    """

    answers: dict[int, Answer] = field(default_factory=dict)
    states: dict[Span, State] = field(default_factory=dict)


def work(task: Task) -> Outcome:
    """Do what a worker is asked to do.

    Raises
    ------
    InvalidInput
        If the events of a shard cannot be used, naming the shard.
    """
    outcome = Outcome()
    common = int(from_state(task.state, **task.placing).n_events)

    def leaf(shard: int) -> Learner | None:
        if shard not in task.batches:
            return None
        learner = from_state(task.state, **task.placing)
        try:
            answer = _follow(learner, task.batches[shard])
        except InvalidInput as error:
            raise InvalidInput(f"shard {shard}: {error}") from error
        outcome.answers[shard] = answer
        return learner if learner.n_events > common else None

    def nothing(_: Span) -> Learner | None:
        return None

    for span in subtrees(task.within, task.shards):
        merged = reduced(span, nothing, leaf, lambda one, two: joined(one, two, common))
        if merged is not None:
            outcome.states[span] = merged.state()
    return outcome


def joined(one: Learner, two: Learner, common: int) -> Learner:
    """Return a learner after it has taken in another, both of which began with `common` events."""
    one.merge(two, common_events=common)
    return one


def _follow(learner: Learner, batch: Batch) -> Answer:
    """Predict the events of a batch in turn, then learn each."""
    X = np.asarray(batch.X)
    if batch.columns is not None:
        X = _arranged(learner, X, batch.columns)
    found = learner.predict_then_learn_many(X, batch.y)
    return Answer(found, tuple(learner.classes))


def _arranged(learner: Learner, X: NDArray[Any], names: Sequence[Column]) -> NDArray[Any]:
    """Return events with the columns of a learner, which is given those that it has not met."""
    if X.ndim != 2 or X.shape[1] != len(names) or len(set(names)) != len(names):
        raise InvalidInput(
            f"events of shape {X.shape} come with {len(names)} names of columns; there must be "
            "one for each column, and none twice"
        )
    known = set(learner.columns or ())
    learner.add_columns([name for name in names if name not in known])
    places = {name: place for place, name in enumerate(learner.columns or ())}
    arranged = np.zeros((len(X), len(places)), X.dtype)
    arranged[:, [places[name] for name in names]] = X
    return arranged
