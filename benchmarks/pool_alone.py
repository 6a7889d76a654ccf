"""The default model without external experts, of which most figures are: `--expert none`."""

from __future__ import annotations

from typing import Any

NO_EXPERTS: dict[str, Any] = {"external_experts": ()}


def options(name: str) -> dict[str, Any]:
    """Return the options that leave a model by name without external experts.

    Examples
    --------
    >>> options("multi-kernel"), options("eigenpro")
    ({'external_experts': ()}, {})
    """
    return dict(NO_EXPERTS) if name == "multi-kernel" else {}


def flags(name: str) -> tuple[str, ...]:
    """Return what does that on the command line of `streamk run`."""
    return ("--expert", "none") if name == "multi-kernel" else ()
