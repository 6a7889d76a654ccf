"""Reading command lines and configuration files so that every mistake is explained."""

from __future__ import annotations

import argparse
import difflib
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from streamk.errors import StreamkError

if TYPE_CHECKING:
    from streamk.engine.checkpoints.places import Location


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
Add = Callable[..., None]
"""Adds an option to a group, see `Parser.group`."""


class UsageError(StreamkError):
    """The command line or the configuration cannot be followed; the exit status is 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the known name that was probably meant, or nothing.

    >>> nearest("inspct", ["run", "inspect"])
    "; did you mean 'inspect'?"
    """
    found = nearest_name(name, known)
    return f"; did you mean {found!r}?" if found else ""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant.

    >>> nearest_name("first_", ["first", "rank"]), nearest_name("colour", ["first", "rank"])
    ('first', None)
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    near += [other for other in names if name and other.startswith(name)]
    return near[0] if near else None


class _Built(Exception):
    """Carries the parser of a command that is asked for it."""


_ASKED: Sequence[str] = ["--help"]
"""In the place of arguments it asks a command for its parser."""


def parser_of(command: Callable[[Sequence[str]], object]) -> argparse.ArgumentParser:
    """Return the parser that a command, the `main` of a module, makes of its arguments."""
    try:
        command(_ASKED)
    except _Built as built:
        found: argparse.ArgumentParser = built.args[0]
        return found
    raise TypeError(f"{command} parses no arguments")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` and knows what was nearly right.

    Options that are not given are left out of what it returns: their defaults are those of the
    functions that they are passed to. With `first`, ``--help`` shows these options alone, and
    ``--help-all`` shows all.
    """

    def __init__(
        self, prog: str, description: str, epilog: str = "", first: Collection[str] = ()
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
            add_help=False,
        )
        self._first = {*first, "help", "help_all"} if first else None

    def add_common(self) -> None:
        """Add the options that every subcommand has."""
        group = self.add_argument_group("help")
        group.add_argument("-h", "--help", action="help", help="show this and exit")
        if self._first:
            group.add_argument("--help-all", action="help", help="show all options and exit")
        group.add_argument(
            "--debug", action="store_true", help="show where in the code an error comes from"
        )

    def group(self, title: str) -> Add:
        """Return a function that adds options under a title: flag and metavar, help, and a reader.

        An option without a metavar is a switch, one whose metavar ends with dots may be repeated,
        and a name without dashes is an argument that may be left out.
        """
        group = self.add_argument_group(title)

        def add(
            flag: str, about: str, read: Callable[[str], Any] | None = None, **more: Any
        ) -> None:
            name, _, metavar = flag.partition(" ")
            if not name.startswith("-"):
                group.add_argument(name.lower(), metavar=metavar or name, nargs="?", help=about)
                return
            if not metavar:
                more["action"] = "store_true"
            else:
                more |= {"metavar": metavar.removesuffix("..."), "type": read}
                if metavar.endswith("..."):
                    more["action"] = "append"
            group.add_argument(name, help=about, **more)

        return add

    def add_checkpoint(self, add: Add | None = None) -> None:
        """Add the place of checkpoints that a command reads; in a group it may be left out."""
        about = "directory or address of checkpoints, or of a single one"
        if add is None:
            self.add_argument("model", metavar="CHECKPOINT", help=about)
        else:
            add("model CHECKPOINT", about)

    def add_key(self, add: Add | None = None) -> None:
        """Add the option of all that read checkpoints."""
        about = "key of 32 bytes or more: sign checkpoints with it, and refuse all others"
        read = partial(existing_path, what="state key")
        (add or self.group("options"))("--state-key FILE", about, read)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        raise UsageError(message)

    def parse(self, arguments: Sequence[str]) -> dict[str, Any]:
        """The options given, by name. Raises `UsageError`."""
        if arguments is _ASKED:
            raise _Built(self)
        if self._first and "--help-all" not in arguments:
            for action in self._actions:
                if action.dest not in self._first:
                    action.help = argparse.SUPPRESS
        found, unknown = self.parse_known_args(arguments)
        if unknown:
            self._refuse(unknown)
        return vars(found)

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        # Only the flag itself is shown: a value beside it may be a secret.
        for word in unknown:
            if word.startswith("-") and word != "-":
                flag = word.partition("=")[0]
                known = [name for action in self._actions for name in action.option_strings]
                raise UsageError(f"no option {flag!r}{self._having(flag) or nearest(flag, known)}")
        raise UsageError(f"{len(unknown)} argument(s) too many; an option's name may be missing")

    def _having(self, flag: str) -> str:
        """Return a hint at the option whose value has a part of that name, as HOST:PORT has."""
        word = flag.lstrip("-").upper()
        for action in self._actions:
            parts = re.split(r"\W+", str(action.metavar))
            if action.option_strings and len(word) > 2 and word in parts:
                return f"; there is {action.option_strings[-1]} {action.metavar}"
        return ""

    def read_config(self, path: str) -> dict[str, Any]:
        """The options in a TOML file, whose keys are the names of the flags.

        Raises `UsageError`, naming the key and the nearest that there is.
        """
        file = existing_path(path, "configuration file")
        try:
            entries = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is not valid TOML: {error}") from None
        actions = {
            (action.option_strings or [action.dest])[-1].lstrip("-"): action
            for action in self._actions
        }
        for never in ("help", "help-all", "debug", "config"):
            actions.pop(never, None)
        options = {}
        for key, value in entries.items():
            action = actions.get(key.replace("_", "-"))
            if action is None:
                raise UsageError(f"{path}: no option {key!r}{nearest(key, actions)}")
            try:
                options[action.dest] = _converted(action, value)
            except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
                raise UsageError(f"{path}: {key}: {error}") from None
        return options


_WITH_COMMAS = set[Callable[[str], Any]]()


def with_commas(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader of values with commas between, which may be a list of a configuration."""
    _WITH_COMMAS.add(read)
    return read


def _converted(action: argparse.Action, value: Any) -> Any:
    """A value from a configuration file, as the flag would have given it."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise TypeError(f"must be true or false, not {value!r}")
        return value
    if value is True and action.nargs == "?" and action.const is not None:
        return action.const
    read: Callable[[str], Any] = action.type if callable(action.type) else str
    if isinstance(action, argparse._AppendAction):
        if isinstance(value, dict):
            return [read(f"{name}={_text(one)}") for name, one in value.items()]
        many = value if isinstance(value, list) else [value]
        return [read(_text(one)) for one in many]
    if isinstance(value, list) and read in _WITH_COMMAS:
        return read(",".join(map(_text, value)))
    return read(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"must be a word or a number, not a {type(value).__name__}")


def existing_path(path: str, what: str) -> Path:
    """The path, if it is there. Raises `UsageError` with the nearest name beside it."""
    found = Path(path).expanduser()
    if found.exists():
        return found
    beside = [other.name for other in found.parent.iterdir()] if found.parent.is_dir() else []
    raise UsageError(f"no {what} {path}{nearest(found.name, beside)}")


def checkpoint_place(text: str, what: str = "directory of checkpoints") -> Location:
    """The place of checkpoints: a directory that is there, or an address in an object store.

    Raises `UsageError`, and `InvalidInput` for an address that cannot be used.
    """
    from streamk.engine.checkpoints.places import location

    place = location(text)
    return existing_path(str(place), what) if isinstance(place, Path) else place


def resolved(place: Location) -> Location:
    """The place without links and steps up in its path."""
    return place.resolve() if isinstance(place, Path) else place


def one_of(*names: str) -> Callable[[str], str]:
    """A reader of one word out of several."""

    def read(text: str) -> str:
        if text in names:
            return text
        hint = nearest(text, names)
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(names)}{hint}")

    return read


def whole(least: int) -> Callable[[str], int]:
    """A reader of whole numbers; 10_000 is one too."""

    def read(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
        if found < least:
            raise argparse.ArgumentTypeError(f"{found} is too small; the minimum is {least}")
        return found

    return read


def flag_of(name: str) -> str:
    """Return the flag of an option by its name."""
    return f"--{name.replace('_', '-')}"


def number(text: str) -> float:
    """Read a finite number."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}")
    return found


def duration(text: str) -> float:
    """Read a time span in seconds: a number, or one with a unit.

    >>> duration("7d"), duration("90"), duration("250ms")
    (604800.0, 90.0, 0.25)
    """
    plain = text.strip().lower()
    unit = plain.lstrip("0123456789.")
    if unit and unit not in _UNITS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time span; write seconds, or a number with ms, s, m, h or d, "
            "such as 7d"
        )
    return number(plain.removesuffix(unit)) * _UNITS[unit or "s"]


@with_commas
def durations(text: str) -> tuple[float, ...]:
    """Read time spans with commas between.

    >>> durations("1h,7d")
    (3600.0, 604800.0)
    """
    return tuple(map(duration, text.split(",")))


def seconds(text: str) -> float:
    """Read a time in seconds."""
    found = number(text)
    if found < 0:
        raise argparse.ArgumentTypeError(f"a time span cannot be negative: {text}")
    return found


def seconds_or_inf(text: str) -> float:
    """Read a time in seconds; inf is one too."""
    return math.inf if text.strip().lower() == "inf" else seconds(text)


def share(text: str) -> float:
    """A part of 1, of a command line or a configuration."""
    value = number(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} must lie between 0 and 1")
    return value


def named_value(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError("write NAME=VALUE, for example bandwidth=0.5")
    return name.strip().replace("-", "_"), value.strip()
