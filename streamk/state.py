"""The state of a model: a JSON header and a flat dict of arrays.

Every learner has ``state()`` and ``from_state()``. A `State` holds no code and nothing that
needs code to be read: the header is plain JSON and the arrays are what safetensors can store, so
a checkpoint opens on another machine, another device or in another language. Compound models
(a scaler in front of a learner, many kernels side by side) nest the states of their parts in
one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from streamk.errors import InvalidInput, StateError

__all__ = ["FORMAT", "JSON", "State"]

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

FORMAT = 1
"""The version of all that states hold: one number, however deep they are nested."""
_PARTS = "parts"
"""The header's key under which the headers of nested states lie, by the name of the part."""


@dataclass(frozen=True)
class State:
    """A model's state: everything needed to go on exactly where it stopped.

    The arrays are not copied: a learner that goes on learning in place hands out copies.

    Parameters
    ----------
    header : dict of str to JSON
        At least ``"type"``, the name under which the model's class is registered. Everything in
        it is plain JSON without NaN or infinity. A header that has no ``"format"`` yet gets
        `FORMAT`.
    arrays : dict of str to numpy.ndarray, optional
        Named arrays of any shape, of bool, integer or floating dtype. Dots in names separate
        the parts of nested states.
    changed : dict of str to uint8 array, optional
        Of arrays of many rows that are lent: a 1 for each row that has changed since whoever wrote
        them down made these zeros, perhaps with more at its end.

    Raises
    ------
    InvalidInput
        If the header lacks its type or is not JSON, or an array cannot be stored.
    StateError
        If it has another format.

    Examples
    --------
    >>> import numpy as np
    >>> state = State({"type": "counter", "seed": 7}, {"n": np.arange(3)})
    >>> state.type, state.header["format"], state.arrays["n"].tolist()
    ('counter', 1, [0, 1, 2])
    >>> State({"type": "counter", "format": 2})
    Traceback (most recent call last):
        ...
    streamk.errors.StateError: this 'counter' state has format 2, and 1 is the only one that is
    known here; open it with the streamk that wrote it
    """

    header: dict[str, JSON]
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    changed: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.header.get("type"), str):
            raise InvalidInput('a state\'s header needs "type", the registered name of its class')
        object.__setattr__(self, "header", {"format": FORMAT, **self.header})
        found = self.header["format"]
        if found != FORMAT or isinstance(found, bool):
            raise StateError(
                f"this {self.type!r} state has format {found!r}, and {FORMAT} is the only one that"
                " is known here; open it with the streamk that wrote it"
            )
        try:
            json.dumps(self.header, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"the header of a {self.type!r} state is not plain JSON: {error};"
                " arrays and NaN belong in `arrays`"
            ) from error
        for name, array in self.arrays.items():
            kind = getattr(array, "dtype", type(array))
            if getattr(kind, "kind", "O") not in "biuf":
                raise InvalidInput(
                    f"array {name!r} of a {self.type!r} state must be a NumPy array of bool,"
                    f" int or float, not {kind}"
                )

    @property
    def type(self) -> str:
        """The name under which the model's class is registered."""
        return str(self.header.get("type"))

    @property
    def nbytes(self) -> int:
        """Bytes in the arrays, the header not counted."""
        return sum(array.nbytes for array in self.arrays.values())

    def expect(self, type: str) -> State:  # noqa: A002 (the header's own word)
        """Return this state if it is of that type, and explain if it is not.

        Parameters
        ----------
        type : str
            The registered name that the reader goes by.

        Returns
        -------
        State
            This state itself.

        Raises
        ------
        StateError
            If the state is of another type.

        Examples
        --------
        >>> State({"type": "counter"}).expect("scaler")
        Traceback (most recent call last):
            ...
        streamk.errors.StateError: this is the state of a 'counter', not of a 'scaler'; open it with
        the class that is registered as 'counter'
        """
        if self.type != type:
            raise StateError(
                f"this is the state of a {self.type!r}, not of a {type!r};"
                f" open it with the class that is registered as {self.type!r}"
            )
        return self

    @classmethod
    def nest(
        cls,
        parts: Mapping[str, State],
        header: Mapping[str, JSON],
        own: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> State:
        """Join the states of a compound model's parts into one.

        Parameters
        ----------
        parts : mapping of str to State
            The states by the name of their part; a name holds no dot. Parts may be nested
            states themselves.
        header : mapping of str to JSON
            The compound model's own header, with its ``"type"``.
        own : mapping of str to array, optional
            Its own arrays.

        Returns
        -------
        State
            The arrays of part ``p`` are called ``p.name`` in it; the headers of the parts lie
            in the header under ``"parts"``.

        Raises
        ------
        InvalidInput
            If the name of a part holds a dot, or the header has a key ``"parts"`` already.

        Examples
        --------
        >>> import numpy as np
        >>> scaler = State({"type": "scaler"}, {"mean": np.zeros(2)})
        >>> learner = State({"type": "linear"}, {"coef": np.ones(2)})
        >>> whole = State.nest({"scaler": scaler, "learner": learner}, {"type": "scaled"})
        >>> sorted(whole.arrays)
        ['learner.coef', 'scaler.mean']
        >>> whole.child("learner").header
        {'format': 1, 'type': 'linear'}
        """
        if _PARTS in header:
            raise InvalidInput(f'the header of a nested state cannot have a key "{_PARTS}"')
        arrays, changed = dict[str, Any](), dict[str, Any]()
        for part, state in parts.items():
            if "." in part:
                raise InvalidInput(f"the name of a part must not hold a dot: {part!r}")
            arrays |= {f"{part}.{name}": array for name, array in state.arrays.items()}
            changed |= {f"{part}.{name}": array for name, array in state.changed.items()}
        headers: dict[str, JSON] = {part: state.header for part, state in parts.items()}
        return cls({**header, _PARTS: headers}, {**arrays, **(own or {})}, changed)

    def child(self, part: str) -> State:
        """Return the state of one part of a nested state.

        Parameters
        ----------
        part : str
            The name that the part was nested under.

        Returns
        -------
        State
            Equal to the state that was nested; it shares the arrays.

        Raises
        ------
        StateError
            If there is no such part.

        Examples
        --------
        >>> State({"type": "linear"}).child("scaler")
        Traceback (most recent call last):
            ...
        streamk.errors.StateError: this 'linear' state has no part 'scaler'; it has none
        """
        headers = self.header.get(_PARTS)
        parts = headers if isinstance(headers, dict) else {}
        header = parts.get(part)
        if not isinstance(header, dict):
            raise StateError(
                f"this {self.type!r} state has no part {part!r};"
                f" it has {', '.join(map(repr, parts)) or 'none'}"
            )
        prefix = f"{part}."
        return State(
            header,
            {
                name.removeprefix(prefix): array
                for name, array in self.arrays.items()
                if name.startswith(prefix)
            },
        )
