"""The default model beside gradient boosted trees: trained anew all the time.

at_once     each event predicted, then learned; trees trained anew every 1,000 events
late        the same with labels that come 48 events late
whole       labels at once, and the whole length of streams that have more than 20,000 events
shuffled    labels at once, 20,000 events of these streams in random order
labels      trees and forests that have the last three labels known as columns; labels at once
labels_late the same with labels that come 48 events late

Runs are kept in the user's cache directory as those of the river battery; those of ours, too, until
the code changes.
With --only the other parts stay in the results as they were.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy

from benchmarks import common
from benchmarks.battery_tables import (
    WIDE,
    Figures,
    accuracy_table,
    against_table,
    best_of,
    errors,
    kappa_table,
    log_loss_table,
    over_streams,
    streams_of,
    where_both,
    without,
    wrapped,
)
from benchmarks.common import Part
from benchmarks.data import Directory
from benchmarks.rivals import (
    BASELINES,
    OURS,
    PLAIN,
    RIVER_MODELS,
    SEED,
    Contestant,
    Filled,
    informed,
    moa,
    table,
)
from benchmarks.river_battery import Battery, directory, losses
from benchmarks.streams import FILES, NUMBERS, RIVERS, STREAMS, Event, Stream, load

# --- trees ----------------------------------------------------------------------------------------
#
# Gradient boosted trees on a stream: trained anew every 1,000 events, on labels known by then.
#
# A training takes all events before, or the last 10,000. Before the first one the answers are the
# shares of the classes so far, of numbers their mean. What is missing is NaN, which both libraries
# take as it is; words are a sparse matrix. One thread.

EVERY = 1_000
LAST = 10_000
DENSE = 1_000
"""Columns up to which a table is dense."""

Trees = Callable[..., Any]


def lightgbm(task: str, nominal: Sequence[int] = ()) -> Any:
    """Trees of LightGBM with its defaults, of which there are 100; `nominal` are categories."""
    import lightgbm

    kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    trees = kind(random_state=SEED, n_jobs=1, verbose=-1)
    if nominal:
        trees.fit = partial(trees.fit, categorical_feature=nominal)
    return trees


def histogram(task: str, nominal: Sequence[int] = ()) -> Any:
    """scikit-learn's, without early stopping: it fails where a class has a single event."""
    from sklearn import ensemble

    regression = task == "regression"
    kind = (
        ensemble.HistGradientBoostingRegressor
        if regression
        else ensemble.HistGradientBoostingClassifier
    )
    return kind(
        random_state=SEED, early_stopping=False, categorical_features=nominal or "from_dtype"
    )


def rows(events: Sequence[Event], index: Mapping[Hashable, int]) -> Any:
    """Events as rows; sparse where there are many columns."""
    if len(index) <= DENSE:
        return table(events, index)
    starts = np.cumsum([0, *map(len, events)])
    columns = [index[column] for event in events for column in event]
    values = np.array([value for event in events for value in event.values()], dtype=np.float64)
    return scipy.sparse.csr_matrix((values, columns, starts), shape=(len(events), len(index)))


def stacked(parts: Sequence[Any]) -> Any:
    """Tables of `rows`, one below the other."""
    if len(parts) == 1:
        return parts[0]
    sparse = scipy.sparse.issparse(parts[0])
    return scipy.sparse.vstack(parts, format="csr") if sparse else np.vstack(parts)


class Retrained:
    """Trees with the battery's interface for batches.

    Events come one at a time until the first training, then `EVERY` at a time; each such batch is
    predicted by trees that were trained when it came, or by older ones where, from then on, they
    are trained after more events: `every`.
    """

    def __init__(self, stream: Stream, make: Trees, last: int = 0, every: int = 0) -> None:
        self._index = {column: j for j, column in enumerate(stream.columns)}
        self._task = stream.task
        nominal = [self._index[column] for column in stream.nominal]
        self._make, self._last = partial(make, stream.task, nominal), last
        self._every = every or EVERY
        self._parts: list[Any] = []
        self._labels: list[Any] = []
        self._asked = 0
        self._trees: Any = None

    def learn_many(self, events: Sequence[Event], labels: Sequence[Any]) -> None:
        """Keep events for the next training."""
        self._parts.append(rows(events, self._index))
        self._labels += labels

    def predict_many(self, events: Sequence[Event]) -> Sequence[Any]:
        """Train if it is time, and answer."""
        often = EVERY if self._asked < self._every else self._every
        if self._asked and self._asked % often == 0:
            self._train()
        self._asked += len(events)
        if self._trees is None:
            return [self._before()] * len(events)
        X = rows(events, self._index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM's, that columns have no names
            if self._task == "regression":
                numbers: list[float] = self._trees.predict(X).tolist()
                return numbers
            shares = self._trees.predict_proba(X).tolist()
        classes = self._trees.classes_.tolist()
        return [dict(zip(classes, row, strict=True)) for row in shares]

    def _train(self) -> None:
        """Nothing where all labels are of one class: trees need two."""
        if len(set(self._labels[-self._last :])) > 1:
            self._parts = [stacked(self._parts)]
            X, y = self._parts[0][-self._last :], np.array(self._labels[-self._last :])
            self._trees = self._make().fit(X, y)

    def _before(self) -> Any:
        if not self._labels:
            return None
        if self._task == "regression":
            return float(np.mean(self._labels))
        return {label: n / len(self._labels) for label, n in Counter(self._labels).items()}


def _contestant(name: str, make: Trees, package: str, settings: str, **options: Any) -> Contestant:
    """Trees of one kind; `last` events of a training, 0 for all before, is among the options."""
    last, every = options.get("last", 0), options.get("every", 0)
    trained = f"trained anew every {every or EVERY:,} events on {last or 'all'} before"
    return Contestant(
        name,
        partial(Retrained, make=make, last=last, every=every),
        package,
        f"{settings}, {trained}",
        batch=EVERY,
        alone=EVERY,
        most_columns=options.get("most_columns", float("inf")),
        none=True,
    )


_LIGHTGBM = (lightgbm, "lightgbm", "defaults, n_jobs=1")
_HISTOGRAM = (histogram, "scikit-learn", "defaults, early_stopping=False")
TREES = (
    _contestant("LightGBM, all before", *_LIGHTGBM),
    _contestant("LightGBM, last 10,000", *_LIGHTGBM, last=LAST),
    _contestant("HGB, all before", *_HISTOGRAM, most_columns=DENSE),
    _contestant("HGB, last 10,000", *_HISTOGRAM, most_columns=DENSE, last=LAST),
)


# --- contestants ----------------------------------------------------------------------------------
#
# The contestants: ours with its defaults and without a metric, and trees.
#
# CapyMOA's are streaming gradient boosted trees (SGBT, Gunasekara et al. 2024) and PLASTIC (Heyden
# et al. 2024), a Hoeffding tree that is restructured; of classes.

_MOST_COLUMNS = 1_000
"""CapyMOA's are not run on streams of more."""
_SGBT = "StreamingGradientBoostedTrees"
_MOA = (
    moa("CapyMOA PLASTIC", "PLASTIC", "defaults"),
    moa("CapyMOA SGBT", _SGBT, "defaults", Filled, random_seed=SEED),
)
MOA = tuple(replace(one, most_columns=_MOST_COLUMNS) for one in _MOA)
_BASELINES = tuple(one for one in RIVER_MODELS if one.name in BASELINES)
RIVALS = (*_BASELINES, *TREES, *MOA)
"""In the order in which they run: those that take longest come last."""

# --- informed -------------------------------------------------------------------------------------
#
# Rivals that know the labels which ours knows when it predicts: the last three are columns, as they
# were when the event was predicted, in training too.
#
# Classes are categories for LightGBM, HGB and CapyMOA's and River's trees, each in its own way.
# CapyMOA's forests have 100 trees, River's ten: their defaults.

# xRFM (Beaglehole et al. 2025) is the feature machine by its authors, retrained more seldom: a
# training takes the third power of its events.


class Xrfm:
    """xRFM with its defaults: columns standardised, categories one-hot; a fifth validates."""

    def __init__(self, task: str, nominal: Sequence[int] = ()) -> None:
        from sklearn.compose import make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        classes = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        self._columns = make_column_transformer((classes, nominal), remainder=numbers)
        self._regression, self._target = task == "regression", StandardScaler()

    def fit(self, X: Any, y: Any) -> Xrfm:
        from sklearn.model_selection import train_test_split
        from xrfm import xRFM

        if self._regression:
            y = self._target.fit_transform(y[:, np.newaxis]).astype(np.float32)
        else:
            self.classes_, y = np.unique(y, return_inverse=True)
        rows = self._columns.fit_transform(X).astype(np.float32)
        X, X_val, y, y_val = train_test_split(rows, y, test_size=0.2, random_state=SEED)
        self._model = xRFM(device="cpu", n_threads=1, random_state=SEED, verbose=False)
        self._model.fit(X, y, X_val, y_val)
        return self

    def predict(self, X: Any) -> Any:
        answers = self._model.predict(self._columns.transform(X).astype(np.float32))
        return self._target.inverse_transform(answers)[:, 0]

    def predict_proba(self, X: Any) -> Any:
        return self._model.predict_proba(self._columns.transform(X).astype(np.float32))


_XRFM = _contestant(
    *("xRFM", Xrfm, "xrfm", "defaults, n_threads=1, a fifth of events validates"),
    last=LAST,
    every=5 * EVERY,
    most_columns=DENSE,
)
_SHORT = ("LightGBM all", "LightGBM 10k", "HGB all", "HGB 10k")
_TREES = tuple(informed(one, f"{name} + labels") for name, one in zip(_SHORT, TREES, strict=True))
_FORESTS = (
    *(one for one in RIVER_MODELS if one.name in ("River ARF, 10", "River SRP, 10")),
    moa("CapyMOA SRP", "StreamingRandomPatches", "defaults, 100 trees", random_seed=SEED),
    moa("CapyMOA ARF", "AdaptiveRandomForestClassifier", "defaults, 100 trees", random_seed=SEED),
)
INFORMED = (
    *_TREES,
    informed(_XRFM, "xRFM 10k + labels"),
    *(
        replace(
            informed(one, f"{one.name.removesuffix(', 10')} + labels"), most_columns=_MOST_COLUMNS
        )
        for one in _FORESTS
    ),
)
CONTESTANTS = {one.name: one for one in (OURS, PLAIN, *RIVALS, *INFORMED)}
ROWS = (OURS.name, PLAIN.name, *(one.name for one in (*INFORMED, *TREES, *MOA, *_BASELINES)))


# --- progressive ----------------------------------------------------------------------------------
#
# All contestants on the battery's streams, labels at once or 48 events late, and who is best.
#
# Streams are cut after `EVENTS` events, or have their whole length: those that have more. Of these,
# too, are the streams in random order, where nothing changes and the labels before tell nothing.

EVENTS = 20_000
LIMIT = 600.0
WHOLE_LIMIT = 1_200.0
"""Seconds of the processor for a stream of whole length, of up to 150,000 events."""
LONGER = (
    *("elec2", "airlines_h2o_44k", "gmsc", "a9a", "covtype_subset93k", "rialto", "kdd99_10pct"),
    *("cadata_california_housing", "beijing_pm25", "house_16H"),
)
"""Streams of more than `EVENTS` events."""
ORDERED = tuple(name for name in LONGER if name != "cadata_california_housing")
"""Those of them that are not in random order anyway."""


def measure(
    data: Directory,
    *,
    quick: bool,
    cached: bool,
    delay: int = 0,
    whole: bool = False,
    shuffled: bool = False,
    labels: bool = False,
    names: Sequence[str] = tuple(STREAMS),
    contestants: Sequence[str] = tuple(CONTESTANTS),
) -> dict[str, Any]:
    """Measure the contestants; compare ours, with and without a metric, with the best rival.

    With `whole` it is the longer streams alone, none of which is cut; with `shuffled` events of
    these in random order. With `labels` there are rivals that know the last labels, in place of
    CapyMOA's that do not.
    """
    taken = ORDERED if shuffled else LONGER if whole else tuple(STREAMS)
    cut = 0 if whole or shuffled else EVENTS
    streams = [load(name, data, quick=quick, events=cut) for name in names if name in taken]
    if shuffled:
        streams = [stream.shuffled().first(EVENTS) for stream in streams]
    limit, start = (WHOLE_LIMIT, EVENTS) if whole else (LIMIT, EVERY)
    battery = Battery(
        streams,
        delay,
        directory(),
        limit,
        idle=cached,
        keep_ours=True,
        contestants=CONTESTANTS,
    )
    field = (*_BASELINES, *TREES, *INFORMED) if labels else RIVALS
    rivals = [one.name for one in field if one.name in contestants]
    ours = [one.name for one in (OURS, PLAIN) if one.name in contestants]
    figures = battery.figures([*ours, *rivals])
    against, against_log = (
        {name: battery.against_best(figures, rivals, name, log=log) for name in ours}
        for log in (False, True)
    )
    return {
        "delay": delay,
        "whole": whole,
        "shuffled": shuffled,
        "limit_s": limit,
        "streams": {stream.name: stream.describe() for stream in streams},
        "contestants": figures,
        **_later(battery, figures, ours, start),
        "against": against,
        "against_log": against_log,
    }


def _later(battery: Battery, figures: Figures, ours: Sequence[str], start: int) -> dict[str, Any]:
    """Scores from that event on, of streams that go on for long enough; ours less the best."""
    found: dict[str, Any] = {}
    against: dict[str, dict[str, Any]] = {name: {} for name in ours}
    for stream in battery.streams:
        there = [name for name in figures if stream.name in figures[name]]
        if len(stream) < start + EVERY:
            continue
        losses = dict(_losses(battery, there, stream, start))
        numbers = stream.task == "regression"
        for name, lost in losses.items():
            mean = float(lost.mean())
            found.setdefault(name, {})[stream.name] = (
                {"mae": mean} if numbers else {"accuracy": 1 - mean}
            )
        rivals = {name: lost for name, lost in losses.items() if name not in ours}
        for name in (name for name in ours if name in losses and rivals):
            against[name][stream.name] = best_of(rivals, losses[name], parts=numbers)
    return {"later_from": start, "later": found, "later_against": against}


def _losses(battery: Battery, names: Sequence[str], stream: Stream, start: int) -> Any:
    """Those from that event on, of all that came to the end of a stream."""
    for name in names:
        outcome = battery.run(CONTESTANTS[name], stream)
        if outcome is not None and not outcome.ended:
            yield name, losses(outcome, stream)[start:]


def render_part(found: Mapping[str, Any]) -> str:
    """The tables of one part."""
    figures = found["contestants"]
    late = f"{found['delay']} late" if found["delay"] else "at once"
    late = "whole length" if found["whole"] else late
    late = "random order" if found.get("shuffled") else late
    classes = streams_of(figures, (*FILES, *RIVERS))
    narrow = without(classes, WIDE)
    accuracy = partial(accuracy_table, f"accuracy, %, {late}", figures, rows=ROWS)
    over = partial(over_streams, figures=figures, rows=ROWS)
    later = f"from {found['later_from']:,}"
    shown = [
        *(log_loss_table(f"log loss, {late}", figures, s, rows=ROWS) for s in (FILES, RIVERS)),
        accuracy(FILES, gmsc=True),
        accuracy(RIVERS),
        *(kappa_table(f"kappa t., {late}", figures, s, rows=ROWS) for s in (FILES, RIVERS)),
        over(f"{late}, all of these", streams=classes),
        over(f"{late}, without spam", streams=narrow),
        where_both(f"{late}, where both finished", figures, classes, rows=ROWS),
        accuracy_table(f"%, {late}, {later}", found["later"], FILES, rows=ROWS),
        accuracy_table(f"%, {late}, {later}", found["later"], RIVERS, rows=ROWS),
        errors("MAE", "mae", late, figures, rows=ROWS),
        errors("MAE", "mae", later, found["later"], rows=ROWS),
        errors("RMSE", "rmse", late, figures, rows=ROWS),
    ]
    when = {"whole length": "whole", "random order": "random"}.get(late, late)
    for name, against in found.get("against_log", {}).items():
        title = f"{_title(name)}: % loss, {when}"
        shown.append(against_table(title, "best rival", against, 100))
    shown += _against(": {}, " + when, found["against"])
    shown += _against(f" {later}: {{}}", found["later_against"])
    shown.append(_rates(late, figures))
    return "\n\n".join(table for table in shown if table)


def _title(name: str) -> str:
    return "ours" if name == OURS.name else name.removeprefix(f"{OURS.name}, ")


def _against(form: str, found: Mapping[str, Any]) -> list[str]:
    """Ours with and without a metric less the best rival of each stream; titles are short."""
    shown = []
    for name, against in found.items():
        title = _title(name) + form
        shown += [
            against_table(title.format("points"), "best rival", against, 100),
            against_table(title.format("% MAE"), "best rival", against, 100, NUMBERS),
        ]
    return shown


def _rates(late: str, figures: Figures) -> str:
    """Events a second of the processor, trainings among them, over the streams of each."""
    rows = []
    for name in ROWS:
        rates = [one["events_per_cpu_s"] for one in figures.get(name, {}).values()]
        if rates:
            seconds = sum(one["cpu_seconds"] for one in figures[name].values())
            cells = (np.median(rates), min(rates), max(rates), seconds)
            rows.append([name, str(len(rates)), *(f"{cell:,.0f}" for cell in cells)])
    header = [f"events/CPU s, {late}", "streams", "median", "least", "most", "CPU s in all"]
    return common.table(header, rows)


# --- the parts ------------------------------------------------------------------------------------

NAME = "retrained"


def _part(**how: Any) -> Part:
    def measured(options: argparse.Namespace) -> dict[str, Any]:
        given = {"quick": options.quick, "cached": options.cached, "names": options.streams}
        return measure(options.data, contestants=options.contestants, **given, **how)

    return Part(measured, render_part)


PARTS = {
    "at_once": _part(),
    "late": _part(delay=48),
    "whole": _part(whole=True),
    "shuffled": _part(shuffled=True),
    "labels": _part(labels=True),
    "labels_late": _part(labels=True, delay=48),
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured; then the packages."""
    packages = document["settings"]["packages"]
    line = ", ".join(f"{name} {version}" for name, version in packages.items()) + "."
    return "\n\n".join([common.render_parts(document, PARTS), wrapped([line])])


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--streams", nargs="+", choices=STREAMS, default=list(STREAMS), metavar="STREAM"
    )
    parser.add_argument(
        "--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), metavar="NAME"
    )
    parser.add_argument("--cached", action="store_true", help="run nothing, show what is kept")


def _settings(_: argparse.Namespace) -> dict[str, Any]:
    everyone = CONTESTANTS.values()
    return {
        "seed": SEED,
        "events": EVENTS,
        "limit_s": LIMIT,
        "whole_limit_s": WHOLE_LIMIT,
        "packages": {one.package: one.version or "not installed" for one in everyone},
        "contestants": {one.name: one.settings for one in everyone},
    }


def run(argv: Sequence[str] | None = None) -> None:
    common.run_parts(NAME, __doc__, PARTS, argv, settings=_settings, add=_options, render=render)


if __name__ == "__main__":
    sys.exit(common.main(run))
