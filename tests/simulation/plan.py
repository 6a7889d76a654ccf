"""Everything about a run that its seed decides beforehand."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .world import Faults


@dataclass(frozen=True)
class Transacted:
    """How outputs are written in transactions.

    `seconds`: time in which each is to be committed.
    `delivery_timeout`: seconds in which the brokers must have taken an output.
    `margin`: seconds that brokers give a transaction beyond those two.
    `partitions`: of the topic of predictions.
    """

    seconds: float = 1.0
    delivery_timeout: float = 2.0
    margin: float = 30.0
    partitions: int = 2


@dataclass
class Plan:
    """What kind of world a seed makes; as it is, two members of a group and no fault.

    `shared`: one checkpoint directory for all workers of a group.
    `span`: seconds in which the events arrive.
    `calm`: seconds after which no more faults come.
    `retention`: old events are deleted at times.
    `real`: a real learner, where there is no group.
    `staleness`: of a real learner in shards; None where it has none.
    `return_all`: at the end all workers of a group come back once more before the last one drains
      the log.
    `options`: of the engine.
    `transacted`: the source and the sinks are those of Kafka.
    `late`: some partitions come later than the others.
    """

    seed: int = 0
    kind: Literal["single", "group"] = "group"
    events: int = 80
    partitions: int = 2
    workers: int = 2
    shared: bool = True
    span: float = 0.0
    calm: float = 0.0
    gaps: bool = False
    retention: bool = False
    real: bool = False
    sink: str | None = "topic"
    ordered: bool = True
    return_all: bool = False
    until_end: bool = False
    most: int = 6
    switching: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    budget: int = 0
    staleness: int | None = None
    transacted: Transacted | None = None
    late: bool = False

    @classmethod
    def transacting(cls, seed: int) -> Plan:
        """The plan of a seed whose jobs write in transactions."""
        plan, rng = cls.of(seed), random.Random(f"transactions {seed}")
        rates = {
            **plan.rates,
            "kill": rng.choice((0.02, 0.05, 0.1)),
            "freeze": rng.choice((0.0, 0.02, 0.05)),
            "lost request": rng.choice((0.0, 0.0, 0.01, 0.05)),
            "lost answer": rng.choice((0.0, 0.0, 0.01, 0.05)),
            "late request": rng.choice((0.0, 0.0, 0.01, 0.05)),
            "slow answer": rng.choice((0.0, 0.1, 0.5)),
            "brokers away": rng.choice((0.0, 0.0, 0.01)),
        }
        if plan.kind == "single":
            rates["moved"] = rng.choice((0.0, 0.05, 0.2))
        transacted = Transacted(
            rng.choice((0.1, 0.5, 2.0)),
            rng.choice((1.0, 5.0)),
            rng.choice((0.5, 5.0, 30.0)),
            rng.randint(1, 3),
        )
        return replace(
            plan, rates=rates, budget=rng.randint(4, 20), sink=None, transacted=transacted
        )

    @classmethod
    def of(cls, seed: int) -> Plan:
        """The plan of a seed."""
        rng = random.Random(f"plan {seed}")
        single = rng.random() < 0.4
        retention = rng.random() < 0.2
        span = rng.choice((0.0, 5.0, 20.0))
        workers = 1 if single else rng.randint(2, 4)
        return cls(
            seed=seed,
            kind="single" if single else "group",
            events=rng.randint(40, 140),
            partitions=rng.randint(1, 5),
            workers=workers,
            shared=rng.random() < 0.8,
            span=span,
            calm=span + rng.uniform(3.0, 20.0),
            gaps=rng.random() < 0.5,
            retention=retention,
            real=single and rng.random() < 0.25,
            sink=rng.choice(("file", "topic", None)) if single else rng.choice(("topic", None)),
            ordered=rng.random() < 0.8,
            return_all=rng.random() < 0.5,
            until_end=single and rng.random() < 0.5,
            most=rng.choice((5, 20, 60)),
            switching=rng.choice((0.02, 0.1, 0.5)),
            options={
                "window": 8,
                "checkpoint_every": rng.choice((8, 16, 32, 64)),
                "idle_timeout": rng.choice((0.2, 1.0)),
                "buffer_events": rng.choice((20, 100, 1000)),
                "data_loss": rng.choice(("earliest", "latest")) if retention else "fail",
            },
            rates=_rates(rng, single=single),
            budget=rng.randint(1, 12),
            staleness=random.Random(f"shards {seed}").choice((None, 0, 1, 2)),
            # Retention may take the beginning of one before it is seen, which nobody has lost.
            late=single and not retention and random.Random(f"late {seed}").random() < 0.3,
        )

    @property
    def short(self) -> str:
        """The kind of world in a few words."""
        words: list[str] = [self.kind]
        if self.kind == "group":
            words.append("one directory" if self.shared else "separate directories")
        words += ["shards"] * (self.real and self.staleness is not None)
        words += ["transactions"] * (self.transacted is not None)
        words += ["partitions that come later"] * self.late
        words += ["retention"] * self.retention + ["names as POSIX has them"] * (not self.ordered)
        return ", ".join(words)

    def faults(self) -> Faults:
        """The faults of the disturbed part of the run."""
        return Faults(dict(self.rates), self.budget)


def _rates(rng: random.Random, *, single: bool) -> dict[str, float]:
    """Chances of faults; some worlds have only a few kinds."""
    rates = {
        "kill": rng.choice((0.01, 0.03, 0.1)),
        "power": rng.choice((0.0, 0.0, 0.01, 0.03)),
        "full": rng.choice((0.0, 0.0, 0.02)),
    }
    if not single:
        rates["freeze"] = rng.choice((0.0, 0.02, 0.05))
        rates["lost commit"] = rng.choice((0.0, 0.0, 0.02, 0.1))
        rates["lost acknowledgement"] = rng.choice((0.0, 0.0, 0.05, 0.2))
        rates["no answer"] = rng.choice((0.0, 0.0, 0.01))
    return rates
