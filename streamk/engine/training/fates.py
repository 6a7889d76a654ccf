"""Counts of the fates of events and labels that come apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Fates", "Revisions"]

Revisions: TypeAlias = Literal["ignore", "learn"]
"""The fate of a label that says otherwise than the one before."""


@dataclass
class Fates:
    """Counts of the fates of events and labels.

    Attributes
    ----------
    joined : int
        Labels that met their event, which was scored and learned.
    early : int
        Those of them that came before the event.
    defaulted : int
        Events learned with the default label, since theirs had not come in time.
    missing : int
        Events dropped unlearned, since their label had not come in time.
    overflow : int
        Events dropped unlearned, since too many others were held.
    duplicate_events : int
        Events whose key had come before: predicted, and neither held nor learned.
    duplicates : int
        Labels that said again what was known.
    conflicts : int
        Labels that said otherwise than the first one, which stays.
    revised : int
        Labels that said otherwise than the one before, where such are learned.
    too_late : int
        Labels of events that were held no more.
    unmatched : int
        Labels dropped, since their event had not come in time or too many others waited.
    held, waiting : int
        Events and labels that wait for each other now.
    """

    joined: int = 0
    early: int = 0
    defaulted: int = 0
    missing: int = 0
    overflow: int = 0
    duplicate_events: int = 0
    duplicates: int = 0
    conflicts: int = 0
    revised: int = 0
    too_late: int = 0
    unmatched: int = 0
    held: int = 0
    waiting: int = 0

    @property
    def events(self) -> int:
        """All events that could be used."""
        learned = self.joined + self.defaulted
        return learned + self.missing + self.overflow + self.duplicate_events + self.held

    @property
    def labels(self) -> int:
        """All labels that could be used."""
        known = self.duplicates + self.conflicts + self.revised
        return self.joined + known + self.too_late + self.unmatched + self.waiting
