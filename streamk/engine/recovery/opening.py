"""Models of checkpoints, opened as a run goes on with them.

A run may have other challengers than the one before it. Its own model is known by what it was
before it learned anything, challengers by that and their names:

- A challenger that the checkpoint lacks begins with the next event.
- One that the run does not name is dropped, and so is a former champion.
- The champion stays, so the run must have it: as its own model or as one of its challengers.
- A run without challengers goes on with the champion alone, in shards if its model is in shards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set

from streamk.declared import listed, reading
from streamk.errors import InvalidInput, StateError
from streamk.learners import Contest, Sharded
from streamk.learners.base import Learner
from streamk.learners.sharded.sharded import reopened
from streamk.packing import fingerprint
from streamk.state import State

__all__ = ["Opening", "initials", "tell_of_challengers"]

_log = logging.getLogger("streamk.engine")


def initials(state: State) -> dict[str, str]:
    """Return digests of the models of a contest before they learned, by name; {} of another model.

    Raises `StateError` if they are not there.
    """
    if state.type != Contest.TYPE:
        return {}
    models = listed(state.header, "models", "a contest")
    with reading("a contest"):
        return {str(each["name"]): str(each["initial"]) for each in models}


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

    def __init__(self, model: Learner) -> None:
        self._model, self._placing = type(model), model.placing
        self._fresh = model.state()
        self._own = ""
        """The name of the run's own model among several."""
        self.initial = self._fresh
        if model.models:
            self._own, self.initial = model.champion, self._fresh.child("learner")
        alone = self.initial.child("learner") if self.initial.type == Sharded.TYPE else self.initial
        self._digest = initials(self._fresh).get(self._own) or fingerprint(alone)

    def open(self, state: State, like: Learner) -> Learner:
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
        if self._model is not Contest:
            opened: Learner = reopened(self._champion_of(state), like)
            return opened
        if state.type != Contest.TYPE:
            contest = Contest.from_state(self._fresh, **self._placing)
            contest.go_on_with(reopened(state, contest.learner))
            return contest
        return self._with_challengers(state)

    def _champion_of(self, state: State) -> State:
        """Return the state of a model alone, which must be the run's."""
        if state.type != Contest.TYPE:
            return state
        champion = str(state.header.get("champion"))
        if initials(state).get(champion) != self._digest:
            raise StateError(_other_champion(champion))
        return state.child("learner")

    def _with_challengers(self, state: State) -> Contest:
        """Return a contest that goes on with the models that this run has, and no others."""
        there, wanted = initials(state), initials(self._fresh)
        del wanted[self._own]
        for name, digest in wanted.items():
            if there.get(name, digest) != digest:
                raise StateError(
                    f"the model {name!r} of the checkpoint began otherwise than the one that is"
                    " given here; give it the same options, or another name"
                )
        champion = str(state.header.get("champion"))
        own = self._name_of_own(there.keys() - wanted.keys(), there, champion)
        if champion != own and champion not in wanted:
            raise StateError(_other_champion(champion))
        models = self._placing["models"]
        of_each = {own: models[self._own], **{name: models[name] for name in wanted}}
        contest = Contest.from_state(state, **{**self._placing, "models": of_each})
        fresh = Contest.from_state(self._fresh, **self._placing).models
        try:
            for name in [name for name in wanted if name not in there]:
                contest.begin(name, fresh[name])
        except InvalidInput as error:
            raise StateError(f"no challenger can be added to the checkpoint: {error}") from error
        for name in there.keys() - wanted.keys() - {own}:
            contest.drop(name)
        return contest

    def _name_of_own(self, names: Set[str], there: Mapping[str, str], champion: str) -> str:
        """Return the name that the run's own model has among those that no challenger has."""
        found = [name for name in there if name in names and there[name] == self._digest]
        if not found:
            raise StateError(
                "this run's own model is none of the checkpoint's, or one of the challengers that"
                " are given, too; give it the options of a model that `streamk inspect` shows"
            )
        return champion if champion in found else found[0]


def _other_champion(champion: str) -> str:
    return (
        f"the champion of the checkpoint is {champion!r}, which is neither this run's model nor one"
        f" of its challengers; name it (--challenger {champion}=...), give its options as those of"
        " the model, or roll the promotion back (streamk rollback)"
    )


def tell_of_challengers(state: State, model: Learner) -> None:
    """Log which challengers begin or are dropped where a run goes on from a checkpoint."""
    before, now = set(initials(state)), set[str]()
    if model.models:
        before, now = before or {model.champion}, set(model.models)
    elif before:
        now = {str(state.header.get("champion"))}
    for name in sorted(now - before):
        _log.info("the challenger %s begins here", name)
    for name in sorted(before - now):
        _log.warning("the model %s is dropped: this run does not name it", name)
