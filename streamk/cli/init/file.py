"""The job file of `streamk init`: sure options set, others in comments, with the reasons."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from streamk.cli.init.guesses import Guess
from streamk.cli.report import WIDTH, columns, share
from streamk.encoding import Name

_LONGEST = 22
"""Characters of a column's name in the table."""


def job_file(address: str, found: Guess, n: int, *, is_topic: bool) -> str:
    """Return the text of the file, of so many events."""
    return "\n".join(_lines(address, found, n, is_topic)) + "\n"


def _lines(address: str, found: Guess, n: int, is_topic: bool) -> Iterator[str]:
    yield from (_comment(f"A job of streamk, from its first {n:,} events"), "#")
    yield from _table(found)
    if found.doubts:
        yield from ("#", "# doubts:", *(_comment(doubt, "# - ") for doubt in found.doubts))
    yield from ("", f"source = {_quoted(address)}")
    if found.label is None:
        yield from ("# The field to be predicted:", '# label = "NAME"')
    else:
        yield f"label = {_quoted(found.label.name)}"
        yield from (_comment(of_task(found)), f'task = "{found.task}"')
    left_out = [f"    {_quoted(name)},  # {_cut(why, 40)}" for name, why in found.ignore.items()]
    left_out += [f"    # {_quoted(name)},  # {why}" for name, why in found.leaks.items()]
    left_out = [line if len(line) <= WIDTH else line.rpartition("  # ")[0] for line in left_out]
    if left_out:
        yield from ("", "# Columns that are left out:", "ignore = [", *left_out, "]")
    if found.entities:
        yield from ("", "# The model knows what each of these did before an event:")
        yield f"# entity = [{', '.join(map(_quoted, found.entities))}]"
    if found.time is not None:
        yield from _time(found, f"time = {_quoted(found.time.name)}")
    yield from ("", "# Predictions go to:", '# to = "file:predictions.ndjson"')
    yield from ("", "# With a checkpoint a job goes on after a stop:", '# checkpoint = "state"')
    yield from ("", "# Events that cannot be used go to:", '# dead-letters = "file:bad.ndjson"')
    if is_topic:
        yield from ("", "# A topic has no end. Stop where it ends now:", "# until-end = true")


def _time(found: Guess, line: str) -> Iterator[str]:
    if found.time_is_sure:
        yield from ("", "# The model knows the time since the last label, and seasons:", line)
        return
    needs = "if it can be trusted" if found.task == "regression" else "for statistics of entities"
    yield from ("", f"# Time of the events, {needs}:", f"# {line}")


def _table(found: Guess) -> Iterator[str]:
    rows = [("column", "kind", "missing", "different", "values")]
    for name, one in found.columns.items():
        counts = f"{one.missing:.1%}", f"{len(one.values):,}"
        rows.append((_cut(str(name), _LONGEST), one.kind, *counts, one.shown()))
    return (_cut(line, WIDTH) for line in columns(rows, indent="# ").splitlines())


def of_task(found: Guess) -> str:
    """Return the task and the labels in a line."""
    if found.task == "regression":
        return f"regression, {found.label.shown() if found.label else ''}"
    classes = [f"{one} {n:,}" for one, n in found.classes.most_common()]
    return f"classification, {len(classes)} classes: {share(classes, 6)}"


def one_line(text: str) -> str:
    """Return a text of an event as one line shows it.

    >>> one_line(f"two{chr(10)}lines")
    'two?lines'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _cut(text: str, most: int) -> str:
    text = one_line(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _quoted(name: Name) -> str:
    return json.dumps(str(name), ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str, first: str = "# ") -> str:
    after = f"#{' ' * (len(first) - 1)}"
    return textwrap.fill(
        one_line(text), WIDTH, initial_indent=first, subsequent_indent=after, break_on_hyphens=False
    )
