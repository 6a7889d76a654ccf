"""Joining the coefficients that learners of one seed learned apart."""

from __future__ import annotations

from collections.abc import Sequence

from streamk.errors import InvalidInput
from streamk.learners.common.classes import Label
from streamk.learners.doubly_stochastic.coefficients import Coefficients
from streamk.learners.doubly_stochastic.kernel_function import KernelFunction
from streamk.losses import Loss


def share_columns(one: KernelFunction, other: KernelFunction) -> None:
    """Give a function the columns that another has besides.

    Raises
    ------
    InvalidInput
        If features depend on the columns' places, and the two have put columns in different ones.
    """
    mine, theirs = one.columns or (), other.columns or ()
    if not one.by_place:
        new = tuple(name for name in theirs if name not in mine)
        if new:
            one.add_columns(new)
        return
    groups = zip(one.widths, other.widths, strict=False) if mine and theirs else ()
    for what, pairs in (
        ("columns", zip(mine, theirs, strict=False)),
        ("groups of columns", groups),
    ):
        for place, (here, there) in enumerate(pairs):
            if here != there:
                choice = "" if one.sampler == "iid" else ", or choose sampler='iid'"
                raise InvalidInput(
                    f"cannot merge learners of sampler {one.sampler!r} that differ in their "
                    f"{what}: {here!r} and {there!r} in place {place}; give both the same columns "
                    f"in the same order before they learn{choice}"
                )
    if len(theirs) > len(mine):
        one.add_columns(theirs[len(mine) :], other.widths)


def matched(
    theirs: Coefficients,
    there: Sequence[Label],
    here: Sequence[Label],
    *,
    n_outputs: int,
    loss: Loss,
) -> Coefficients:
    """Return a copy of another learner's coefficients with its outputs in this learner's order.

    Parameters
    ----------
    theirs : Coefficients
    there, here : sequence of labels
        The other's classes and this learner's, which has all of them.
    n_outputs : int
        This learner's.
    loss : Loss
    """
    copy = theirs.copy()
    if copy.n_outputs == n_outputs and tuple(there) == tuple(here):
        return copy
    if copy.n_outputs > 1 or n_outputs > 1:
        if copy.n_outputs == 1 and loss.name != "softmax":
            copy.split(loss.split_binary)
        copy.select([there.index(c) if c in there else None for c in here])
    elif there[1:2] != here[1:2] and there[:1] != here[:1]:
        # The one output stands for the second class, and that is the other's first.
        copy.scale = -copy.scale
    return copy
