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
from benchmarks.river_battery.ours import NAME
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
    """Run no rival at all."""
    _ours: dict[str, Outcome] = field(default_factory=dict)

    def figures(self, names: Sequence[str]) -> Figures:
        """Run the contestants, one after the other, on all streams; without those not to be had."""
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            for stream, outcome in self._runs(CONTESTANTS[name]):
                figures = scores.figures(outcome, stream, self.delay)
                found.setdefault(name, {})[stream.name] = figures
        return found

    def _runs(self, contestant: Contestant) -> Iterator[tuple[Stream, Outcome]]:
        for stream in self.streams:
            if contestant.takes(stream):
                outcome = self._run(contestant, stream)
                if outcome is not None:
                    yield stream, outcome

    def _run(self, contestant: Contestant, stream: Stream) -> Outcome | None:
        if contestant.name == NAME:
            outcome = loop.run(contestant, stream, self.delay, self.limit)
            if outcome.ended.startswith("failed"):
                raise RuntimeError(f"{stream.name}: {outcome.ended}")
            self._ours[stream.name] = outcome
        else:
            kept = None if self.fresh else self._kept(contestant, stream)
            if kept is not None or self.idle or contestant.version is None:
                return kept
            outcome = loop.run(contestant, stream, self.delay, self.limit)
            units.keep(self.cache, contestant.key(stream, self.delay), self.limit, outcome)
        rate = len(outcome.guess) / outcome.seconds
        about = outcome.ended or f"{outcome.seconds:.0f} s"
        common.note(f"  {self.delay} {contestant.name}: {stream.name} {rate:,.0f}/s, {about}")
        return outcome

    def _kept(self, contestant: Contestant, stream: Stream) -> Outcome | None:
        limit = 0.0 if self.idle else self.limit
        return units.kept(self.cache, contestant.key(stream, self.delay), limit)

    # --- ours against the best ------------------------------------------------------------------

    def against_best(self, figures: Figures, rivals: Sequence[str]) -> dict[str, Any]:
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
            if there and stream.name in self._ours:
                best = min(there, key=there.__getitem__)
                found[stream.name] = {"rival": best, **self._against(best, stream)}
        return found

    def _against(self, rival: str, stream: Stream) -> dict[str, float]:
        theirs = units.kept(self.cache, CONTESTANTS[rival].key(stream, self.delay), 0.0)
        ours = self._ours[stream.name]
        assert theirs is not None
        parts = [scores.counted(outcome, self.delay) for outcome in (ours, theirs)]
        some = slice(max(part.start for part in parts), min(part.stop for part in parts))
        a, b = (scores.losses(outcome, stream)[some] for outcome in (theirs, ours))
        scale = 1.0 if stream.task != "regression" else float(a.mean()) or 1.0
        return {k: v / scale for k, v in compare.paired(a, b).items()}


def _whole(figures: Mapping[str, Any] | None, key: str) -> bool:
    return figures is not None and key in figures and "ended" not in figures


def measure(
    streams: Sequence[Stream], names: Sequence[str], batteries: Sequence[Battery]
) -> dict[str, Any]:
    """What the streams are, and by delay all figures and what they say about ours."""
    delays = {}
    for battery in batteries:
        figures = battery.figures(names)
        found: dict[str, Any] = {
            "contestants": figures,
            "against_river": battery.against_best(figures, RIVER),
            "against_others": battery.against_best(figures, OTHERS),
        }
        delays[str(battery.delay)] = found | {"goals": standing.goals(found)}
    return {"streams": {stream.name: stream.describe() for stream in streams}, "delays": delays}
