"""Models of checkpoints, opened as a run goes on with them."""

from __future__ import annotations

from typing import Any

from streamk.errors import StateError
from streamk.extensions import find
from streamk.learners.registry import kind_of
from streamk.packing import fingerprint
from streamk.state import State

__all__ = ["Opening", "champion_state", "initials", "opening_of"]


def initials(state: State) -> dict[str, str]:
    """Return digests of the models of a contest before they learned, by name; {} of another model.

    Raises `StateError` if they are not there.
    """
    kind = kind_of(state.type)
    return {} if kind is None else dict(kind.initials(state))


def champion_state(state: State) -> State:
    """Return the state of the model that predicts, where there are challengers beside it."""
    kind = kind_of(state.type)
    found: State = state if kind is None else kind.champion_state(state)
    return found


class Opening:
    """Opens what checkpoints hold as the model of a run.

    Parameters
    ----------
    model : Learner
        The run's, as it begins without a checkpoint.

    Attributes
    ----------
    initial : State
        That of the run's own model: of a contest the champion's.
    """

    def __init__(self, model: Any) -> None:
        self._fresh = model.state()
        self.initial = champion_state(self._fresh)
        alone = self.initial.child("learner") if model.in_shards else self.initial
        self._digest = fingerprint(alone)

    def open(self, state: State, like: Any) -> Any:
        """Return the model whose state this is, with the challengers of this run.

        Parameters
        ----------
        state : State
        like : Learner
            The run's model as it is, for the shards and the place of one without challengers.

        Raises
        ------
        StateError
            If it cannot be opened, or the champion is no model of this run.
        """
        if initials(state):
            champion = str(state.header.get("champion"))
            if initials(state).get(champion) != self._digest:
                raise StateError(other_champion(champion))
        state = champion_state(state)
        return like.reopened(state, kind_of(state.type))


def opening_of(model: Any) -> Opening:
    """Return what opens the models of checkpoints for a run that begins with a model."""
    made: Opening = (find("openings", model.TYPE) or Opening)(model)
    return made


def other_champion(champion: str) -> str:
    """Return the sentence where the champion of a checkpoint is no model of the run."""
    return (
        f"the champion of the checkpoint is {champion!r}, which is neither this run's model nor one"
        f" of its challengers; name it (--challenger {champion}=...), give its options as those of"
        " the model, or roll the promotion back (streamk rollback)"
    )
