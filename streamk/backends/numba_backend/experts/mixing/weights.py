"""The arrays of the two mixtures of a pool: of all experts, and of those of the pool itself.

Where there are no external experts the two are one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from streamk.backends.numba_backend.experts import slot, view
from streamk.backends.numba_backend.experts.compiled import fast


class Mixture(NamedTuple):
    """Weights of a mixture, what moves them, and its predictions."""

    shares: Any
    products: Any
    inverses: Any
    last_product: Any
    last_inverse: Any
    top: Any
    mixed: Any
    said: Any
    out: Any


@fast
def own(table: Any) -> Any:
    """Return the arrays of the mixture of the pool's own experts, where there are others, too."""
    return Mixture(
        view.own_shares(table),
        view.own_products(table),
        view.own_inverses(table),
        view.own_last_product(table),
        view.own_last_inverse(table),
        view.own_mixer_weights(table),
        view.own_mixed(table),
        view.own_mixer_scores(table),
        view.own_out(table),
    )


@fast
def full(table: Any, out: Any) -> Any:
    """Return the arrays of the mixture of all experts, which predicts to `out`."""
    return Mixture(
        view.shares(table),
        view.products(table),
        view.inverses(table),
        view.last_product(table),
        view.last_inverse(table),
        view.mixer_weights(table),
        view.mixed(table),
        view.mixer_scores(table),
        out,
    )


@fast
def mixture(table: Any, of_own: Any) -> Any:
    """Return the arrays of one of the mixtures."""
    if table[slot.EXTERNAL] == 0:
        return full(table, view.out(table))
    if of_own:
        return own(table)
    return full(table, view.full_out(table))


@fast
def experts(table: Any, of_own: Any) -> Any:
    """Return how many experts a mixture has, the first ones."""
    return table[slot.OWN_EXPERTS] if of_own else table[slot.EXPERTS]


@fast
def has_external(table: Any, on: Any) -> Any:
    """Return whether an external expert is active by the mask."""
    active = 0.0
    for e in range(table[slot.OWN_EXPERTS], table[slot.EXPERTS]):
        active += on[e]
    return active > 0.0


@fast
def first(table: Any, on: Any) -> Any:
    """Return 0 if the mixture of all experts says something of its own, else 1.

    The mixtures to go through are those from this one to `last`: 0 is that of all, 1 that of the
    pool's own experts.
    """
    return 0 if table[slot.EXTERNAL] == 0 or has_external(table, on) else 1


@fast
def last(table: Any) -> Any:
    """Return 1 if there are two mixtures, else 0."""
    return 1 if table[slot.EXTERNAL] > 0 else 0
