"""States of learners in shards, or in none, opened in the shards of another learner."""

from __future__ import annotations

from typing import Any

from streamk.learners.sharded.learner import OPTIONS, Sharded
from streamk.state import State

__all__ = ["reopened"]


def reopened(state: State, like: Any) -> Any:
    """Return the learner whose state this is, in shards as another learner is, or in none as it is.

    A round that is open goes on where both have the same shards. Else it ends: what the shards
    have learned is merged, and that begins anew in shards, or goes on without them.

    Parameters
    ----------
    state : State
    like : Learner
        It stays as it is.

    Raises
    ------
    StateError
        If it is no state of such a learner.

    Examples
    --------
    >>> from streamk.learners import create
    >>> plain = create("kernel-ridge", task="regression")
    >>> reopened(plain.state(), Sharded(plain, shards=2)).shards
    2
    >>> type(reopened(Sharded(plain).state(), plain)) is type(plain)
    True
    """
    in_shards = state.type == Sharded.TYPE
    if not isinstance(like, Sharded):
        if in_shards:
            return Sharded.from_state(state, learner=like.placing).merged()
        return type(like).from_state(state, **like.placing)
    if not in_shards:
        return _begun(type(like.learner).from_state(state, **like.learner.placing), like)
    found = Sharded.from_state(state, **like.placing)
    same = all(getattr(found, name) == getattr(like, name) for name in OPTIONS)
    return found if same else _begun(found.merged(), like)


def _begun(learner: Any, like: Sharded) -> Sharded:
    """Return a learner in shards as another one is, which begins with a round."""
    options = {name: getattr(like, name) for name in OPTIONS}
    return Sharded(learner, **options, workers=like.workers)
