"""Showing where a run stands, now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from connectors.base import Source, Trouble, Troubled
from streamk.engine.order.feed import Feed
from streamk.engine.progress import Pace, Snapshot, process_bytes
from streamk.engine.training.trainer import Trainer

_EVERY_SECONDS = 1.0
"""Time between two questions: a broker that is gone shall be told within five seconds."""

_log = logging.getLogger("streamk.engine")


class HealthMonitor:
    """Asks sources and sinks, in a thread of its own, whether something is wrong.

    The loop itself may wait in a call of one of them for minutes. What begins and what is over is a
    warning each; nothing else follows from it.

    Parameters
    ----------
    parts : iterable
        Sources and sinks; those that cannot tell (`connectors.base.Troubled`) are left out.
    show : function
        Called with `short` after every question while something is wrong.
    """

    def __init__(self, parts: Iterable[Any], show: Callable[[str | None], None]) -> None:
        self._parts = [part for part in parts if isinstance(part, Troubled)]
        self._show = show
        self._since: dict[Trouble, float] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def short(self) -> str | None:
        """The trouble and its duration, for a line: "broker gone 12s"; None without any."""
        now = time.monotonic()
        told = [f"{what.short} {now - since:.0f}s" for what, since in self._since.copy().items()]
        return "  ".join(told) or None

    def __enter__(self) -> Self:
        if self._parts:
            self._thread = threading.Thread(target=self._watch, name="streamk-health", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Stop asking; what has come up at the end is told."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            if kind is None:
                self._look()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            self._look()
            if self._since:
                self._show(self.short)

    def _look(self) -> None:
        told = [part.trouble() for part in self._parts]
        found = {one for one in told if one is not None}
        for what in [one for one in self._since if one not in found]:
            seconds = time.monotonic() - self._since.pop(what)
            _log.warning("%s, after %.0f s", what.over, seconds)
        for what in found:
            if what not in self._since:
                self._since[what] = time.monotonic()
                _log.warning("%s", what.text)


class Display:
    """Gives snapshots of a run to a function.

    Parameters
    ----------
    on_progress : function of a Snapshot, optional
        Without one nothing is shown.
    """

    def __init__(self, on_progress: Callable[[Snapshot], None] | None, pace: Pace) -> None:
        self._on_progress, self._pace = on_progress, pace
        self._shown: Snapshot | None = None
        self._began: tuple[float, float] | None = None
        """The time of the first snapshot, and the part of the source that was read by then."""
        self._lock = threading.Lock()

    @property
    def due(self) -> bool:
        """True if it is time for the next snapshot."""
        return self._on_progress is not None and self._pace.due()

    def begin(self, events: int) -> None:
        """Measure the speed from here on, after so many events."""
        self._pace.rate(events)

    def show(
        self,
        source: Source,
        feed: Feed,
        trainer: Trainer,
        *,
        epoch: int | None,
        trouble: str | None,
        last: bool = False,
    ) -> None:
        """Wait until all events taken are learned and written, and show where the run stands.

        The last time, at the end of the run, only if anything has changed since it was shown, and
        with the speed of the last events.
        """
        if self._on_progress is None:
            return
        trainer.drain()
        lag, sequencer = source.lag(), feed.sequencer
        lag = None if lag is None else lag + sequencer.buffered
        rate = self._pace.rate(sequencer.events)
        if last and self._shown is not None and sequencer.events == self._shown.events:
            rate = self._shown.events_per_s
        snapshot = _snapshot(trainer, sequencer.events, rate, lag, epoch, trouble)
        share = source.share_read()
        if share is not None:  # what was read ahead is not done
            share *= sequencer.events / max(1, sequencer.events + sequencer.buffered)
        snapshot = replace(snapshot, share=share, seconds_left=self._left(share))
        # At the end it is news if it tells more of the stream and the model than the last one did.
        shown, size = self._shown, snapshot.process_bytes
        if not last or shown is None or snapshot != replace(shown, process_bytes=size):
            self._tell(snapshot)

    def _left(self, share: float | None) -> float | None:
        """Return the seconds until the end of a source of which this part was read."""
        if share is None:
            return None
        now = time.monotonic()
        when, before = self._began = self._began or (now, share)
        return (now - when) * (1.0 - share) / (share - before) if share > before else None

    def show_again(self, trouble: str | None) -> None:
        """Show the last snapshot and the trouble, from another thread, while the run waits."""
        if self._shown is not None and self._pace.overdue():
            self._tell(replace(self._shown, events_per_s=0.0, trouble=trouble))

    def _tell(self, snapshot: Snapshot) -> None:
        if self._on_progress is not None:
            with self._lock:
                self._shown = snapshot
                self._on_progress(snapshot)


def _snapshot(
    trainer: Trainer,
    events: int,
    rate: float,
    lag: int | None,
    epoch: int | None,
    trouble: str | None,
) -> Snapshot:
    """Return where a run stands, whose trainer is drained."""
    counts, metrics, model = trainer.counts, trainer.metrics, trainer.model
    return Snapshot(
        events=events,
        learned=counts.learned,
        predicted=counts.predicted,
        bad=counts.n_bad,
        events_per_s=rate,
        lag=lag,
        features=model.n_features,
        model_bytes=model.nbytes,
        process_bytes=process_bytes(),
        whole=metrics.whole(),
        window=metrics.window(),
        baselines=metrics.baselines()["window"],
        epoch=epoch,
        trouble=trouble,
        contest=model.standings,
        slices=metrics.by_slice(),
        alarms={} if trainer.alarms is None else dict(trainer.alarms.counts),
        bad_kinds=dict(counts.bad),
        tombstones=counts.tombstones,
    )
