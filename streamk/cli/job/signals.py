"""Options for what a job tells beside its predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamk.cli.parsing.arguments import share

__all__ = ["add_details", "add_signals"]


def add_details(add: Callable[..., Any]) -> None:
    """Add the options of what goes with a prediction."""
    add(
        "--interval",
        metavar="SHARE",
        type=share,
        help="predicted numbers come with an interval that holds so large a share of them",
    )
    add(
        "--prediction-set",
        metavar="SHARE",
        type=share,
        help="predicted classes come with a set of them that holds so large a share of the labels",
    )
    add(
        "--explain",
        action="store_true",
        help="predictions come with their reasons: the fields of the largest effect, and their"
        " values",
    )


def add_signals(add: Callable[..., Any]) -> None:
    """Add the options of alarms and of figures for parts of the events."""
    add(
        "--alarms",
        metavar="SINK",
        help="address for events that tell when errors rise, labels come later, or calibration or"
        " coverage leave their bounds",
    )
    add(
        "--slice",
        metavar="NAME",
        help="a field of the events: its first 20 values have figures of their own",
    )
