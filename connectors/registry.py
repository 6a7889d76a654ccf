"""Opening sources and sinks by address.

Connectors are the entry points of the group `streamk.connectors`; an entry's name is the scheme
of its addresses and its object a `connectors.base.Connector`. Other packages add theirs the same
way.
"""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from connectors.base import URL, Connector, EventLog, Sink, Source
from connectors.errors import BadURL

GROUP = "streamk.connectors"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def schemes() -> tuple[str, ...]:
    """The schemes that can be opened here, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def open_source(url: str, **options: Any) -> Source:
    """The source at an address.

    Parameters
    ----------
    url : str
        `scheme:path?option=value&...`, for example "csv:events.csv?follow=true".
    **options
        More options; one given here wins over the same in the address.

    Raises
    ------
    BadURL
        If the address or an option cannot be understood; the message lists the choices.
    Unavailable
        If a package, host or file that it needs is not there.

    Examples
    --------
    >>> source = open_source("memory:", data=[{"x": 1.0}])
    >>> source.partitions()
    ('0',)
    """
    opened: Source = _open("source", url, options)
    return opened


def open_sink(url: str, **options: Any) -> Sink:
    """The sink at an address; see `open_source`."""
    opened: Sink = _open("sink", url, options)
    return opened


def open_log(url: str, **options: Any) -> EventLog:
    """The log of events at an address, to add to; see `open_source`."""
    opened: EventLog = _open("log", url, options)
    return opened


def parse_url(text: str) -> URL:
    """An address taken apart. Raises `BadURL`, also for one with a user name or a password.

    >>> url = parse_url("kafka://one:9092,two:9092/topic?group=g")
    >>> url.host, url.path, url.options["group"], url.text
    ('one:9092,two:9092', 'topic', 'g', 'kafka://one:9092,two:9092/topic')
    """
    match = _SCHEME.fullmatch(text)
    if match is None:
        from connectors.files.text import scheme_of

        scheme = scheme_of(Path(text.partition("?")[0])) or "file"
        raise BadURL(f"{text!r} is not an address; begin it with a scheme: {scheme}:{text}")
    scheme, rest = match[1].lower(), match[2]
    if _has_credentials(rest):
        raise BadURL(
            f"the address {scheme}: seems to hold a user name or a password, which do not belong"
            " there; those of Kafka come from the environment (STREAMK_KAFKA_SASL_PLAIN_USERNAME,"
            " STREAMK_KAFKA_SASL_PLAIN_PASSWORD) or from a file, kafka://HOST:PORT/TOPIC"
            "?security_file=PATH"
        )
    rest, _, query = rest.partition("?")
    host, shown = "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        shown = f"//{host}{slash}{path}"
        # file:///tmp/x has an empty host and an absolute path.
        rest = path if host else slash + path
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise BadURL(
            f"{scheme}:{shown}: the options after '?' must be written name=value&name=value"
        ) from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise BadURL(f"{scheme}:{shown} gives an option twice")
    # The options stay out of what is shown: one of them may be a secret.
    return URL(
        text=f"{scheme}:{shown}", scheme=scheme, host=host, path=unquote(rest), options=dict(pairs)
    )


def _has_credentials(rest: str) -> bool:
    """Return whether an address, without its scheme, is like `//user:secret@host/...`.

    A secret may hold slashes and question marks; so may the paths and options of what has none.

    >>> [_has_credentials(rest) for rest in ("//u:a/b@h/t", "u:s@h/t", "//u:a?b@h/t", "//u@h/t")]
    [True, True, True, True]
    >>> [_has_credentials(rest) for rest in ("/a/b@c", "a@b.csv", "//h:1,i:2/t?file=a@b")]
    [False, False, False]
    """
    if not rest.startswith("//"):
        return re.match(r"[^/?@]+:[^/?@]+@", rest) is not None
    before, _, options = rest[2:].partition("?")
    host = before.partition("/")[0]
    ports = [server.rpartition(":")[2] for server in host.split(",") if ":" in server]
    odd = not all(port.isdigit() or port.endswith("]") for port in ports)
    return bool(host) and ("@" in before or (odd and "@" in options))


def _open(what: str, text: str, options: Mapping[str, Any]) -> Any:
    url = parse_url(text)
    connector = _connector(url)
    opener = getattr(connector, what)
    if opener is None:
        there = (name for name in ("source", "sink", "log") if getattr(connector, name))
        others = " or ".join(f"a {name}" for name in there)
        raise BadURL(f"{url.scheme}: can only be {others}, not a {what} ({url.text})")
    return opener(url, **_converted(url, opener, {**url.options, **options}))


def _connector(url: URL) -> Connector:
    found = [entry for entry in entry_points(group=GROUP) if entry.name == url.scheme]
    if not found:
        hint = near(url.scheme, schemes())
        if re.match(r"\d+/", url.path):  # HOST:PORT/TOPIC
            hint = f" (did you mean 'kafka://{url.text}'?)"
        raise BadURL(f"no connector {url.scheme!r}{hint}; there are {_listed(schemes())}")
    connector = found[0].load()
    if not isinstance(connector, Connector):
        raise BadURL(f"the connector {found[0].name!r} ({found[0].value}) is not a Connector")
    return connector


def _converted(url: URL, opener: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, text turned into what the opener's annotations say. Raises `BadURL`."""
    parameters = inspect.signature(opener, eval_str=True).parameters.values()
    known = {p.name: p.annotation for p in parameters if p.kind is p.KEYWORD_ONLY}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    converted: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known and not takes_any:
            raise BadURL(
                f"{url.text!r}: no option {name!r}{near(name, known)}; "
                f"{url.scheme}: has {_listed(sorted(known)) if known else 'none'}"
            )
        if isinstance(value, str) and name in known:
            value = _parsed(url, name, value, known[name])
        converted[name] = value
    return converted


def _parsed(url: URL, name: str, text: str, hint: Any) -> Any:
    wanted = [kind for kind in (typing.get_args(hint) or (hint,)) if kind is not type(None)]
    if typing.get_origin(hint) is tuple or any(typing.get_origin(k) is tuple for k in wanted):
        return tuple(part for part in text.split(",") if part)
    if bool in wanted:
        answers = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in answers:
            raise BadURL(f"{url.text!r}: {name} must be true or false, not {text!r}")
        return answers[text.lower()]
    for kind, words in ((int, "a whole number"), (float, "a number")):
        if kind in wanted:
            try:
                return kind(text)
            except ValueError:
                raise BadURL(f"{url.text!r}: {name} must be {words}, not {text!r}") from None
    return text


def near(name: str, known: Iterable[str]) -> str:
    """Return a "did you mean" question with the nearest known name, or an empty text."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none (is the package installed?)"
