"""The losses by which a pool of experts learns numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamk.backends.pool_arrays import DEFAULT, HUBER, QUANTILE, SQUARED
from streamk.errors import InvalidInput
from streamk.losses import Loss
from streamk.losses import loss as loss_by_name

_KINDS = {"squared": SQUARED, "huber": HUBER, "quantile": QUANTILE}
_DELTAS = (0.1, 20.0)
"""Less would leave experts standing, and labels end there."""
_LEVELS = (0.005, 0.995)


def number_loss(loss: str | Loss | None) -> Loss | None:
    """Return a loss for numbers, by its name or as it is; None is the default.

    Raises
    ------
    InvalidInput
        If experts do not learn by it, or its parameter is out of range.

    Examples
    --------
    >>> number_loss("quantile")
    Loss(code=<LossCode.QUANTILE: 7>, parameter=0.5)
    """
    found = loss_by_name(loss) if isinstance(loss, str) and loss in _KINDS else loss
    if found is None:
        return None
    if not isinstance(found, Loss) or found.name not in _KINDS:
        raise InvalidInput(
            f"loss={loss!r} is not one that many kernels learn numbers by: "
            f"choose {', '.join(_KINDS)}, or leave it out"
        )
    for name, least, most in (("huber", *_DELTAS), ("quantile", *_LEVELS)):
        if found.name == name and not least <= found.parameter <= most:
            what = "delta, in units of the labels' spread," if name == "huber" else "q"
            raise InvalidInput(
                f"{what} is {found.parameter:g} and must lie between {least:g} and {most:g}"
            )
    return found


def kind_of(loss: Loss | None) -> int:
    """Return the kind of a loss, as the loops know it."""
    return DEFAULT if loss is None else _KINDS[loss.name]


def loss_from_json(saved: Mapping[str, Any] | None) -> Loss | None:
    """Return the loss that `streamk.losses.Loss.to_json` gave; None is the default."""
    return None if saved is None else number_loss(loss_by_name(**saved))
