"""Which faults come at which steps: by chance, or none."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

DELICATE = ("commit", "fsync", "rename", "mkdir", "mark", "unlink", "open", "committed")
"""Steps at which state is half one thing and half another."""


@dataclass
class Faults:
    """Chances of faults at a step, and how many there may be in all.

    `rates`: for steps that are delicate; at the others they are a tenth of it.
    `budget`: faults left; afterwards there are none.
    `freeze_seconds`: order of the time that a frozen process sleeps.
    """

    rates: dict[str, float] = field(default_factory=dict)
    budget: int = 0
    freeze_seconds: float = 5.0
    ordered: set[str] = field(default_factory=set)
    """Kinds that come at the very next opportunity, once."""

    def at(self, label: str, rng: random.Random) -> str | None:
        """The fault that comes at a step: "kill", "power", "freeze" or None."""
        if self.budget <= 0:
            return None
        share = 1.0 if label.split(":")[0] in DELICATE else 0.1
        draw = rng.random()
        for kind in ("kill", "power", "freeze"):
            draw -= share * self.rates.get(kind, 0.0)
            if draw < 0.0:
                self.budget -= 1
                return kind
        return None

    def chance(self, kind: str, rng: random.Random) -> bool:
        """Whether a fault of another kind comes now."""
        if kind in self.ordered:
            self.ordered.remove(kind)
            return True
        if self.budget <= 0 or rng.random() >= self.rates.get(kind, 0.0):
            return False
        self.budget -= 1
        return True

    def end(self) -> None:
        """No more faults from here on."""
        self.budget = 0
