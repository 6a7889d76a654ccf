"""The history of promotions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

from streamk.declared import reading
from streamk.errors import InvalidInput, StateError

__all__ = ["Cause", "Promotion", "Promotions"]

Cause: TypeAlias = Literal["rule", "command", "rollback"]
"""The cause of a promotion: `promote_after`, `streamk promote`, or `rollback`."""
_OWNER = "the promotions of a contest"


@dataclass(frozen=True)
class Promotion:
    """One change of the champion.

    Attributes
    ----------
    events : int
        Labelled events before it.
    champion, former : str
        The champion from then on, and the one until then.
    by : "rule", "command" or "rollback"
    wins, losses : int
        Of the champion, in the events that it was tested on; 0 where there was no test.
    """

    events: int
    champion: str
    former: str
    by: Cause
    wins: int = 0
    losses: int = 0


class Promotions:
    """All changes of the champion, in their order."""

    def __init__(self) -> None:
        self._all: list[Promotion] = []

    def __iter__(self) -> Iterator[Promotion]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, promotion: Promotion) -> None:
        """Note one more."""
        self._all.append(promotion)

    def undone(self) -> str:
        """Return the champion before the last promotion that was not rolled back.

        Raises
        ------
        InvalidInput
            If there is none.

        Examples
        --------
        >>> promotions = Promotions()
        >>> promotions.add(Promotion(100, "b", "a", "command"))
        >>> promotions.undone()
        'a'
        """
        former: list[str] = []
        for each in self._all:
            if each.by != "rollback":
                former.append(each.former)
            elif former:
                former.pop()
        if not former:
            raise InvalidInput("there is no promotion to roll back: the first champion predicts")
        return former[-1]

    def to_json(self) -> list[Any]:
        """Return all as JSON data."""
        return [asdict(each) for each in self._all]

    @classmethod
    def from_json(cls, data: Any) -> Promotions:
        """Return what `to_json` gave. Raises `StateError` if it does not fit."""
        promotions = cls()
        with reading(_OWNER):
            promotions._all = [Promotion(**each) for each in data]
        kinds = {"events": int, "wins": int, "losses": int, "champion": str, "former": str}
        for each in promotions:
            typed = all(type(getattr(each, name)) is kind for name, kind in kinds.items())
            if not typed or each.by not in get_args(Cause):
                raise StateError(f"{_OWNER} do not fit: {each}")
        return promotions
