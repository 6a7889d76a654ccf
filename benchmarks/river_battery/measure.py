"""Run what is not kept, score everything, compare ours with the best rival of each stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.river_battery import compare, loop, scores, standing, units
from benchmarks.river_battery.contestant import Contestant
from benchmarks.river_battery.field import CONTESTANTS, OTHERS, RIVER
from benchmarks.river_battery.loop import Outcome
from benchmarks.river_battery.ours import NAME, OURS
from benchmarks.river_battery.scores import Numbers
from benchmarks.river_battery.standing import Figures
from benchmarks.river_battery.streams import Stream


@dataclass
class Battery:
    """Runs of contestants on streams with one delay; those of rivals are kept in `cache`."""

    streams: Sequence[Stream]
    delay: int
    cache: Path
    limit: float
    fresh: bool = False
    """Run rivals whose run is kept, too."""
    idle: bool = False
    """Run nothing whose runs are kept."""
    keep_ours: bool = False
    """Keep runs of ours, too, for the code as it is."""
    contestants: Mapping[str, Contestant] = field(default_factory=lambda: CONTESTANTS)
    _ours: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def figures(self, names: Sequence[str]) -> Figures:
        """Run the contestants, one after the other, on all streams; without those not to be had."""
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            for stream, outcome in self._runs(self.contestants[name]):
                figures = scores.figures(outcome, stream, self.delay)
                found.setdefault(name, {})[stream.name] = figures
        return found

    def _runs(self, contestant: Contestant) -> Iterator[tuple[Stream, Outcome]]:
        for stream in self.streams:
            if contestant.takes(stream):
                outcome = self.run(contestant, stream)
                if outcome is not None:
                    yield stream, outcome

    def run(self, contestant: Contestant, stream: Stream) -> Outcome | None:
        """One contestant on one stream; None if it is not kept and cannot be run, or must not."""
        ours = contestant.package == OURS.package
        keeps = self.keep_ours or not ours
        outcome = self._kept(contestant, stream) if keeps and not self.fresh else None
        if outcome is None:
            if keeps and (self.idle or contestant.version is None):
                return None
            outcome = loop.run(contestant, stream, self.delay, self.limit)
            if ours and outcome.ended.startswith("failed"):
                raise RuntimeError(f"{stream.name}: {outcome.ended}")
            if keeps:
                units.keep(self.cache, contestant.key(stream, self.delay), self.limit, outcome)
            rate = len(outcome.guess) / outcome.seconds
            about = outcome.ended or f"{outcome.seconds:.0f} s"
            common.note(f"  {self.delay} {contestant.name}: {stream.name} {rate:,.0f}/s, {about}")
        if ours:
            self._ours[contestant.name, stream.name] = outcome
        return outcome

    def _kept(self, contestant: Contestant, stream: Stream) -> Outcome | None:
        limit = 0.0 if self.idle else self.limit
        return units.kept(self.cache, contestant.key(stream, self.delay), limit)

    # --- ours against the best ------------------------------------------------------------------

    def against_best(
        self, figures: Figures, rivals: Sequence[str], ours: str = NAME
    ) -> dict[str, Any]:
        """For each stream the best of these rivals that came to its end, and ours against it.

        A difference above 0 is for ours: more right answers, or less error, in a part of theirs.
        """
        found: dict[str, Any] = {}
        for stream in self.streams:
            key, sign = ("mae", 1) if stream.task == "regression" else ("accuracy", -1)
            there = {
                name: sign * figures[name][stream.name][key]
                for name in rivals
                if _whole(figures.get(name, {}).get(stream.name), key)
            }
            if there and (ours, stream.name) in self._ours:
                best = min(there, key=there.__getitem__)
                losses = self.losses(best, stream, self._ours[ours, stream.name])
                if losses is not None:
                    found[stream.name] = {"rival": best, **compare.paired(*losses)}
        return found

    def losses(self, rival: str, stream: Stream, ours: Outcome) -> tuple[Numbers, Numbers] | None:
        """Losses of a rival and of ours on the same events; None where its run is not to be had.

        Its figures may come from the results of an earlier day, so it is run if that is not kept.
        """
        contestant = self.contestants[rival]
        theirs = units.kept(self.cache, contestant.key(stream, self.delay), 0.0)
        if theirs is None:
            theirs = self.run(contestant, stream)
        if theirs is None:
            common.note(f"  {self.delay} {stream.name} is not compared: no run of {rival}")
            return None
        return scores.both(theirs, ours, stream, self.delay)


def _whole(figures: Mapping[str, Any] | None, key: str) -> bool:
    return figures is not None and key in figures and "ended" not in figures


def measure(
    streams: Sequence[Stream],
    names: Sequence[str],
    batteries: Sequence[Battery],
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What the streams are, and by delay all figures and what they say about ours.

    Contestants that are not among the names have their figures of the results `before`, if any.
    """
    delays = {}
    for battery in batteries:
        figures = battery.figures(names)
        if before is not None:
            figures = {**before["delays"][str(battery.delay)]["contestants"], **figures}
        found: dict[str, Any] = {
            "contestants": figures,
            "against_river": battery.against_best(figures, RIVER),
            "against_others": battery.against_best(figures, OTHERS),
        }
        delays[str(battery.delay)] = found | {"goals": standing.goals(found)}
    return {"streams": {stream.name: stream.describe() for stream in streams}, "delays": delays}
