"""Text for people: aligned columns, and figures that can be read at a glance."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["WIDTH", "columns", "features", "share", "size", "wrapped"]

WIDTH = 79
"""Of what is shown."""


def columns(rows: Sequence[Sequence[str]], *, indent: str = "", numbers: bool = False) -> str:
    """Rows of cells as aligned columns; with `numbers` all but the first are set to the right.

    >>> print(columns([("accuracy", "0.9"), ("log loss", "12.25")], numbers=True))
    accuracy    0.9
    log loss  12.25
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if numbers and place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def wrapped(rows: Sequence[tuple[str, str]]) -> str:
    """Rows of a name and a text that may go over several lines, 79 columns wide.

    >>> print(wrapped([("note", "a text " * 12)]))
      note  a text a text a text a text a text a text a text a text a text a text a
            text a text
    """
    import textwrap

    left = max(len(name) for name, _ in rows) + 4
    cells = []
    for name, text in rows:
        lines = textwrap.wrap(text, WIDTH - left, break_on_hyphens=False) or [""]
        cells += [(name, lines[0]), *(("", line) for line in lines[1:])]
    return columns(cells, indent="  ")


def features(kind: str, n: int) -> str:
    """A row for the weights of a model of some type.

    >>> features("online-nystrom", 512), features("doubly-stochastic", 2048)
    ('512 landmarks', '2,048 random features')
    >>> features("kernel-ridge", 64), features("multi-kernel", 2880)
    ('64 centers', '2,880 features')
    """
    names = {
        "multi-kernel": "features",  # random ones, tables, and the centers of other experts
        "online-nystrom": "landmarks",
        "streaming-meka": "features",
        "kernel-ridge": "centers",
        "eigenpro": "centers",
        "feature-machine": "centers",
    }
    return f"{n:,} {names.get(kind, 'random features')}"


def share(names: Sequence[object], most: int = 12) -> str:
    """The first names of many.

    >>> share(range(100), 3)
    '0, 1, 2, … (100)'
    """
    shown = ", ".join(map(str, names[:most]))
    return f"{shown}, … ({len(names)})" if len(names) > most else shown


def size(n: int) -> str:
    """A size in memory or on disk.

    >>> size(999), size(41_300), size(268_435_456)
    ('999 bytes', '41.3 kB', '268.4 MB')
    """
    if n < 1_000_000:
        return f"{n} bytes" if n < 10_000 else f"{n / 1e3:.1f} kB"
    return f"{n / 1e6:,.1f} MB"
