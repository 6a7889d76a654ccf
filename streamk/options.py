"""Options of learners, each declared once.

A learner lists its options as a mapping of names to `Option`. The list checks the values that its
constructor was given (`check`), gives the header of a state and the arguments to make the learner
again (`to_header`, `from_header`), tells which of them two learners must share to be merged
(`shared`), and is the list of `streamk run --set`. Docstrings get their parameters from it
(`documented`), and the estimators of `streamk.adapters` signature and docstring. A learner's
default stands in its constructor alone, where editors and type checkers read it.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np

from streamk.errors import InvalidInput, shown

__all__ = [
    "NEEDED",
    "Checked",
    "Choice",
    "Flag",
    "Made",
    "Option",
    "Real",
    "Seconds",
    "Whole",
    "check",
    "choice_of",
    "documented",
    "from_header",
    "joined",
    "of_parameters",
    "parameters",
    "sections",
    "shared",
    "to_header",
]

NEEDED = inspect.Parameter.empty
"""The default of an option that has none."""
Kind = TypeVar("Kind", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option: its domain, and its part in states and in merging.

    Of this class itself it has no domain: the object that takes it checks it.

    Parameters
    ----------
    about : str, default ""
        A line for `streamk models`; an option without one cannot be set on the command line.
    doc : str, default ""
        What docstrings say: sentences, the first one begins with a capital. By default the line.
    type : str, default ""
        The type that docstrings name, where it is not that of the domain.
    default : Any
        Of a learner's options it is in the constructor, and here in `of_parameters` alone.
    optional : bool, default False
        Whether None is a value.
    saved : bool, default True
        Whether it is in a state. Threads, say, are those of the machine that opens the state.
    resource : bool, default False
        Whether it bounds memory or time alone, so that learners that differ in it may be merged.
    """

    about: str = ""
    doc: str = ""
    type: str = ""
    default: Any = NEEDED
    optional: bool = False
    saved: bool = True
    resource: bool = False

    @property
    def _of(self) -> Any:
        """The type of its values, but None."""
        return Any

    @property
    def _named(self) -> str:
        """The same, as docstrings name it."""
        return str(getattr(self._of, "__name__", self._of))

    @property
    def annotation(self) -> Any:
        """The type of a parameter for this option."""
        return self._of | None if self.default is None or self.optional else self._of

    def entry(self, name: str) -> str:
        """Return the option as numpydoc has a parameter.

        Examples
        --------
        >>> print(Whole(about="directions of a cluster", default=256).entry("rank"))
        rank : int, default 256
            Directions of a cluster.
        """
        head = f"{name} : {self.type or self._named}"
        if self.default is None or self.default == ():
            head += ", optional"
        elif self.default is not NEEDED:
            head += " or None" if self.optional else ""
            head += f", default {_shown(self.default)}"
        line = re.sub(r" \([^()]*\)$", "", self.about)
        doc = self.doc or (line and f"{line[0].upper()}{line[1:]}.")
        return "\n".join([head, *_wrapped(doc)])

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidInput, naming the option and its domain, unless the value is within."""
        if not (value is None and self.optional) and not self._holds(value):
            raise InvalidInput(f"{name}={shown(value)} must be {self._domain}")

    @property
    def _domain(self) -> str:
        """The values, as a message names them: "a number above 0"."""
        return "given"

    def _holds(self, value: Any) -> bool:
        """Return whether a value, other than None, is in the domain."""
        return True

    def to_json(self, value: Any) -> Any:
        """Return a value, other than None, as JSON data."""
        return value.item() if isinstance(value, np.generic) else value

    def from_json(self, saved: Any) -> Any:
        """Return the value that `to_json` gave."""
        return saved


@dataclass(frozen=True, kw_only=True)
class Whole(Option):
    """An option that is a whole number between two bounds, which are allowed.

    Parameters
    ----------
    least : int, default 1
    most : int, optional, default 2^53
        The default is the largest that is exact in JSON wherever it is read; None means no bound.

    Examples
    --------
    >>> Whole(least=1).check("rank", 0)
    Traceback (most recent call last):
        ...
    streamk.errors.InvalidInput: rank=0 must be a whole number of at least 1
    """

    least: int = 1
    most: int | None = 2**53

    @property
    def _of(self) -> Any:
        return int

    @property
    def _domain(self) -> str:
        lower = f"a whole number of at least {self.least}"
        return lower if self.most in (None, 2**53) else f"{lower} and at most {self.most}"

    def _holds(self, value: Any) -> bool:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return whole and value >= self.least and (self.most is None or value <= self.most)


@dataclass(frozen=True, kw_only=True)
class Real(Option):
    """An option that is a finite number between two bounds.

    Parameters
    ----------
    least, most : float
        The bounds.
    open_below, open_above : bool, default False
        Whether the bound itself is not a value.

    Examples
    --------
    >>> Real(open_below=True, most=1.0).check("forgetting", 0)
    Traceback (most recent call last):
        ...
    streamk.errors.InvalidInput: forgetting=0 must be a number above 0 and at most 1
    """

    least: float = 0.0
    most: float = math.inf
    open_below: bool = False
    open_above: bool = False

    @property
    def _of(self) -> Any:
        return float

    @property
    def _domain(self) -> str:
        lower = f"a number {'above' if self.open_below else 'of at least'} {self.least:g}"
        if self.most == math.inf:
            return lower
        return f"{lower} and {'below' if self.open_above else 'at most'} {self.most:g}"

    def _holds(self, value: Any) -> bool:
        if not isinstance(value, int | float | np.number) or isinstance(value, bool):
            return False
        if not math.isfinite(value):
            return False
        above = value > self.least if self.open_below else value >= self.least
        below = value < self.most if self.open_above else value <= self.most
        return bool(above and below)


@dataclass(frozen=True, kw_only=True)
class Seconds(Option):
    """An option that is a number of seconds, at least 0; infinite where that is allowed."""

    infinite: bool = False

    @property
    def _domain(self) -> str:
        return f"a number of seconds, at least 0{', or infinite' if self.infinite else ''}"

    def _holds(self, value: Any) -> bool:
        is_number = isinstance(value, int | float)
        return is_number and value >= 0 and (self.infinite or value < math.inf)


@dataclass(frozen=True, kw_only=True)
class Flag(Option):
    """An option that is true or false."""

    @property
    def _of(self) -> Any:
        return bool

    @property
    def _domain(self) -> str:
        return "True or False"

    def _holds(self, value: Any) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class Choice(Option):
    """An option that is one of a few words.

    Examples
    --------
    >>> Choice(choices=("sgd", "newton")).check("optimizer", "adam")
    Traceback (most recent call last):
        ...
    streamk.errors.InvalidInput: optimizer='adam' must be one of sgd, newton
    """

    choices: tuple[str, ...]

    @property
    def _of(self) -> Any:
        return str

    @property
    def _named(self) -> str:
        return f"{{{', '.join(map(_shown, self.choices))}}}"

    @property
    def _domain(self) -> str:
        return f"one of {', '.join(self.choices)}"

    def _holds(self, value: Any) -> bool:
        return value in self.choices

    def to_json(self, value: Any) -> str:
        """Return the word; of a NumPy dtype its name."""
        return str(value)


def choice_of(literal: Any) -> Choice:
    """Return the domain of a literal type."""
    return Choice(choices=get_args(literal), optional=True)


@dataclass(frozen=True, kw_only=True)
class Made(Option):
    """An option that is an object of a class of streamk, with a method ``to_json``.

    Parameters
    ----------
    kind : type
    parse : callable
        Returns the object whose JSON it is given.
    or_by : type, optional
        Of what it can be made by who takes the option: of a text, its name, say.
    """

    kind: type
    parse: Callable[[Any], Any] = field(repr=False)
    or_by: type | None = None

    @property
    def _of(self) -> Any:
        return self.kind if self.or_by is None else self.or_by | self.kind

    @property
    def _named(self) -> str:
        own = self.kind.__name__
        return own if self.or_by is None else f"{self.or_by.__name__} or {own}"

    @property
    def _domain(self) -> str:
        return f"a streamk {self.kind.__name__}"

    def _holds(self, value: Any) -> bool:
        return isinstance(value, self.kind)

    def to_json(self, value: Any) -> Any:
        """Return the object's JSON data."""
        return value.to_json()

    def from_json(self, saved: Any) -> Any:
        """Return the object of that data."""
        return self.parse(saved)


class Checked:
    """Options as annotated fields of a dataclass, checked where they are given."""

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if an option is out of its domain."""
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for domain in getattr(hint, "__metadata__", ()):
                domain.check(name, getattr(self, name))


def check(options: Mapping[str, Option], owner: object) -> None:
    """Check the attributes of an object that are options.

    Raises
    ------
    InvalidInput
        If one is out of its domain, naming it.
    """
    for name, option in options.items():
        option.check(name, getattr(owner, name))


def to_header(options: Mapping[str, Option], owner: object) -> dict[str, Any]:
    """Return the options of an object that are saved, as JSON data by their names.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> to_header({"rank": Whole(), "threads": Whole(saved=False)}, SimpleNamespace(rank=8))
    {'rank': 8}
    """
    values = {name: getattr(owner, name) for name, option in options.items() if option.saved}
    return {
        name: None if value is None else options[name].to_json(value)
        for name, value in values.items()
    }


def from_header(options: Mapping[str, Option], header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that make an object of the header of its state.

    Raises
    ------
    KeyError, TypeError, ValueError
        If an option is missing from the header or its value does not fit.
    """
    return {
        name: None if header[name] is None else option.from_json(header[name])
        for name, option in options.items()
        if option.saved
    }


def shared(options: Mapping[str, Option]) -> tuple[str, ...]:
    """Return the names of the options that learners must have in common to be merged."""
    return tuple(name for name, each in options.items() if each.saved and not each.resource)


# Docstrings

_SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
_ORDER = (
    *("", "Parameters", "Returns", "Attributes", "Raises", "See Also"),
    *("Notes", "References", "Examples"),
)


def _shown(value: Any) -> str:
    """Return a default as docstrings have it: ``"auto"``, ``0.5``, ``1e-06``."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _wrapped(doc: str) -> list[str]:
    """Return the lines of paragraphs, indented; those of a list stay as they are."""
    lines: list[str] = []
    for paragraph in doc.split("\n\n") if doc else ():
        lines += [""] if lines else []
        if paragraph.startswith("- "):
            lines += textwrap.indent(paragraph, "    ").splitlines()
            continue
        lines += textwrap.wrap(
            paragraph,
            92,
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def sections(doc: str | None) -> dict[str, str]:
    r"""Return the parts of a docstring by their titles; what comes before the first by "".

    Examples
    --------
    >>> sections("Learn.\n\nRaises\n------\nInvalidInput\n")
    {'': 'Learn.', 'Raises': 'InvalidInput'}
    """
    lead, *rest = _SECTION.split(inspect.cleandoc(doc or ""))
    return {"": lead.strip()} | {
        title: text.strip() for title, text in zip(rest[::2], rest[1::2], strict=True)
    }


def joined(parts: Mapping[str, str]) -> str:
    """Return the docstring of parts that `sections` gives, in the order of numpydoc."""
    found = [(title, parts[title]) for title in _ORDER if parts.get(title)]
    return "\n\n".join(
        f"{title}\n{'-' * len(title)}\n{text}" if title else text for title, text in found
    )


def parameters(options: Mapping[str, Option]) -> str:
    """Return the text of the section "Parameters" for options."""
    return "\n".join(option.entry(name) for name, option in options.items())


def of_parameters(made: Callable[..., Any], options: Mapping[str, Option]) -> dict[str, Option]:
    """Return the options that a callable takes, in its order and with its defaults.

    Examples
    --------
    >>> of_parameters(lambda *, rank=8: rank, {"rank": Whole(), "tol": Real()})["rank"].default
    8
    """
    return {
        name: replace(options[name], default=parameter.default)
        for name, parameter in inspect.signature(made).parameters.items()
        if name in options
    }


def documented(given: Mapping[str, Option], **lacking: str) -> Callable[[Kind], Kind]:
    """Return a decorator that puts parameters in the docstring of a function or class.

    Parameters
    ----------
    given : mapping of str to Option
        Parameters that are not among the `OPTIONS` of the class.
    **lacking : str
        Further sections by their titles, where the docstring has none.
    """

    def decorate(kind: Kind) -> Kind:
        """Return the function or class."""
        if kind.__doc__:
            known = of_parameters(kind, {**given, **getattr(kind, "OPTIONS", {})})
            told = lacking | sections(kind.__doc__) | {"Parameters": parameters(known)}
            kind.__doc__ = joined(told)
        return kind

    return decorate
