"""Contests of checkpoints, opened as a run with challengers goes on with them.

A run may have other challengers than the one before it. Its own model is known by what it was
before it learned anything, challengers by that and their names:

- A challenger that the checkpoint lacks begins with the next event.
- One that the run does not name is dropped, and so is a former champion.
- The champion stays, so the run must have it: as its own model or as one of its challengers.
- A run without challengers goes on with the champion alone, in shards if its model is in shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from streamk.contest.contest import Contest
from streamk.errors import InvalidInput, StateError
from streamk.learners.base import Learner
from streamk.learners.opening import Opening, initials, other_champion
from streamk.learners.registry import kind_of
from streamk.state import State

__all__ = ["ContestOpening"]


class ContestOpening(Opening):
    """Opens what checkpoints hold as the contest of a run.

    Parameters
    ----------
    contest : Contest
        The run's, as it begins without a checkpoint.
    """

    def __init__(self, contest: Contest) -> None:
        super().__init__(contest)
        self._placing = contest.placing
        self._own = contest.champion
        """The name of the run's own model."""
        self._digest = initials(self._fresh)[self._own]

    def open(self, state: State, like: Learner) -> Contest:
        """Return the contest that goes on from a state; raises as `Opening.open` does."""
        if state.type == Contest.TYPE:
            return self._with_challengers(state)
        contest = Contest.from_state(self._fresh, **self._placing)
        contest.go_on_with(contest.learner.reopened(state, kind_of(state.type)))
        return contest

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
            raise StateError(other_champion(champion))
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
