"""The fixed binary tree in which the shards of a round are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

Span: TypeAlias = tuple[int, int]
"""The shards of a subtree: the first, and the one after the last."""
_Part = TypeVar("_Part")


def halves(span: Span) -> tuple[Span, Span]:
    """Return the two subtrees of which a subtree of several shards is made.

    Examples
    --------
    >>> halves((0, 5))
    ((0, 3), (3, 5))
    """
    first, stop = span
    middle = (first + stop + 1) // 2
    return (first, middle), (middle, stop)


def subtrees(within: Span, shards: int) -> Iterator[Span]:
    """Yield the largest subtrees of a tree that lie within some consecutive shards, in their order.

    Parameters
    ----------
    within : (int, int)
        The first shard, and the one after the last.
    shards : int
        Of the whole tree.

    Examples
    --------
    >>> list(subtrees((0, 6), 16)), list(subtrees((6, 11), 16))
    ([(0, 4), (4, 6)], [(6, 8), (8, 10), (10, 11)])
    """
    yield from _within(within, (0, shards))


def _within(within: Span, span: Span) -> Iterator[Span]:
    if span[0] >= within[1] or span[1] <= within[0]:
        return
    if within[0] <= span[0] and span[1] <= within[1]:
        yield span
        return
    for half in halves(span):
        yield from _within(within, half)


def reduced(
    span: Span,
    known: Callable[[Span], _Part | None],
    leaf: Callable[[int], _Part | None],
    join: Callable[[_Part, _Part], _Part],
) -> _Part | None:
    """Return what the shards of a subtree come to.

    It depends on the tree alone, not on which parts of it are known already. A shard that gives
    nothing is left out: the other half of its subtree stands for both.

    Parameters
    ----------
    span : (int, int)
    known : callable
        Takes a subtree and returns what it comes to, where that is known, else None.
    leaf : callable
        Takes the number of a shard and returns its part, None where it gives nothing.
    join : callable
        Takes the parts of two halves, the first one first.

    Examples
    --------
    >>> reduced((0, 5), lambda span: None, lambda s: str(s) if s != 1 else None, "({}+{})".format)
    '((0+2)+(3+4))'
    >>> reduced((0, 4), {(0, 2): "a"}.get, str, "({}+{})".format)
    '(a+(2+3))'
    """
    found = known(span)
    if found is not None:
        return found
    if span[1] - span[0] == 1:
        return leaf(span[0])
    one, two = (reduced(half, known, leaf, join) for half in halves(span))
    if one is None or two is None:
        return two if one is None else one
    return join(one, two)
