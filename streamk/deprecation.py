"""Former names of public options and attributes, which go on working for one minor version."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["former_attribute", "former_options"]

Init = TypeVar("Init", bound=Callable[..., Any])


def former_options(**now: str) -> Callable[[Init], Init]:
    """Return a decorator of a function whose options had other names.

    Parameters
    ----------
    **now : str
        The present name of an option by its former one.

    Raises
    ------
    TypeError
        From the function, if an option is given by both of its names.

    Examples
    --------
    >>> import warnings
    >>> @former_options(lag="delay")
    ... def begin(*, delay=1):
    ...     return delay
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     begin(lag=3)
    3
    >>> print(told[0].message)
    lag= is now called delay=; the former name goes with the next minor version
    """

    def decorate(init: Init) -> Init:
        @functools.wraps(init)
        def renamed(*arguments: Any, **options: Any) -> Any:
            for former in options.keys() & now.keys():
                name = now[former]
                if name in options:
                    raise TypeError(f"{former}= is the former name of {name}=; give one of them")
                _warn(f"{former}=", f"{name}=")
                options[name] = options.pop(former)
            return init(*arguments, **options)

        return cast("Init", renamed)

    return decorate


def former_attribute(former: str, name: str) -> property:
    """Return a read-only property under the former name of an attribute."""

    def get(self: Any) -> Any:
        _warn(f".{former}", f".{name}")
        return getattr(self, name)

    return property(get, doc=f"Former name of `{name}`.")


def _warn(former: str, name: str) -> None:
    warnings.warn(
        f"{former} is now called {name}; the former name goes with the next minor version",
        DeprecationWarning,
        stacklevel=3,
    )
