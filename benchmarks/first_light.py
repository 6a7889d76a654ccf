"""Progressive accuracy, log loss and events/s, side by side with River's models.

Every model predicts each event before it learns it. All take the same events in the same order, in
one process and in turn, a thousand events at a time (the engine, all of them at once); all have
their default options, but for "no metric", which has no feature machine among its experts, and
"growing", a model that grows for as long as it learns. River's linear models come after a
StandardScaler, as they need one; ours scale by themselves. An event is scored by its predicted
probabilities; the log loss takes them as at least 1e-15. An event for which a model knows no class
yet, the first one, is not scored.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import common
from benchmarks.data import Dataset, load

SEED = 1
EVENTS = 20_000
TURN = 1_000
_WARM = 1_300
"""Events after which all that a feature machine needs is compiled."""
SETS = ("elec2", "covtype_subset93k", "a9a", "airlines_h2o_44k", "rialto")
_GROWING = {"batch_size": 8, "block_size": 256, "max_features": 1 << 17}
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "streamk, engine": ("multi-kernel", {}),
    "streamk, engine, no metric": ("multi-kernel", {"external_experts": ()}),
    "streamk, engine, one kernel": ("doubly-stochastic", {}),
    "streamk, engine, growing": ("doubly-stochastic", _GROWING),
}
"""The engine's model and its options."""


# --- the models ---------------------------------------------------------------------------------


def _kernel(_: bool, **options: Any) -> Any:
    from streamk.adapters.river import KernelClassifier

    return KernelClassifier(seed=SEED, **options)


def _logistic(binary: bool) -> Any:
    from river.linear_model import LogisticRegression
    from river.multiclass import OneVsRestClassifier

    return LogisticRegression() if binary else OneVsRestClassifier(LogisticRegression())


def _linear(binary: bool) -> Any:
    from river.preprocessing import StandardScaler

    return StandardScaler() | _logistic(binary)


def _sampled(binary: bool) -> Any:
    from river.feature_extraction import RBFSampler
    from river.preprocessing import StandardScaler

    return StandardScaler() | RBFSampler(seed=SEED) | _logistic(binary)


def _tree(_: bool) -> Any:
    from river.tree import HoeffdingTreeClassifier

    return HoeffdingTreeClassifier()


def _forest(_: bool) -> Any:
    from river.forest import ARFClassifier

    return ARFClassifier(n_models=10, seed=SEED)


def _majority(_: bool) -> Any:
    from river.dummy import PriorClassifier

    return PriorClassifier()


def _no_change(_: bool) -> Any:
    from river.dummy import NoChangeClassifier

    return NoChangeClassifier()


ONE_BY_ONE: dict[str, Callable[[bool], Any]] = {
    "streamk, one event at a time": _kernel,
    "streamk, one at a time, no metric": partial(_kernel, external_experts=()),
    "River logistic regression": _linear,
    "River RBFSampler + logistic": _sampled,
    "River Hoeffding tree": _tree,
    "River ARF, 10 trees": _forest,
    "majority class": _majority,
    "no change": _no_change,
}
"""Makers of models with River's interface; True asks for a model of two classes."""


# --- progressive validation ---------------------------------------------------------------------


@dataclass
class Score:
    """Sums over the events that were scored."""

    events: int = 0
    scored: int = 0
    hits: int = 0
    loss: float = 0.0
    seconds: float = 0.0

    def add(self, probabilities: Mapping[Any, float], label: Any) -> None:
        self.events += 1
        if probabilities:
            self.scored += 1
            self.hits += max(probabilities, key=probabilities.__getitem__) == label
            self.loss -= math.log(max(probabilities.get(label, 0.0), 1e-15))

    def figures(self) -> dict[str, Any]:
        return {
            "accuracy": round(self.hits / self.scored, 5),
            "log_loss": round(self.loss / self.scored, 5),
            "events_per_s": round(self.events / self.seconds, 1),
            "events": self.events,
            "scored": self.scored,
            "seconds": round(self.seconds, 3),
        }


def one_by_one(data: Dataset, makers: Mapping[str, Callable[[bool], Any]]) -> dict[str, Any]:
    """Test then train, one event at a time, every model in turn; only models are timed."""
    binary = data.y.dtype == bool
    models = {name: make(binary) for name, make in makers.items()}
    scores = {name: Score() for name in makers}
    for start in range(0, len(data), TURN):
        events = list(data.events(start, min(start + TURN, len(data))))
        for name, model in models.items():
            answers = []
            began = time.perf_counter()
            for x, label in events:
                answers.append(model.predict_proba_one(x))
                model.learn_one(x, label)
            scores[name].seconds += time.perf_counter() - began
            for probabilities, (_, label) in zip(answers, events, strict=True):
                scores[name].add(probabilities, label)
        _progress(start + len(events), scores)
    return {name: score.figures() for name, score in scores.items()}


def _progress(done: int, scores: Mapping[str, Score]) -> None:
    rates = (f"{name} {s.events / s.seconds:,.0f}/s" for name, s in scores.items())
    common.note(f"  {done:,} events: " + "; ".join(rates))


def through_engine(data: Dataset, name: str, model_options: Mapping[str, Any]) -> dict[str, Any]:
    """Our learner, fed by the engine from memory."""
    from connectors.memory import MemorySource
    from streamk.engine import Engine
    from streamk.learners import create

    model = create(name, task="classification", seed=SEED, **model_options)
    source = MemorySource((data.X, data.y), columns=data.columns)
    engine = Engine(source, model, label="label")
    began = time.perf_counter()
    report = engine.run()
    seconds = time.perf_counter() - began
    assert report.counts.learned == len(data), report.counts
    return {
        **{name: round(value, 5) for name, value in report.whole.items()},
        "events_per_s": round(len(data) / seconds, 1),
        "events": len(data),
        "scored": report.counts.predicted,
        "seconds": round(seconds, 3),
        "features": report.model.n_features,
    }


def measure(data: Dataset) -> dict[str, Any]:
    """All models on one data set."""
    common.note(f"{data.name}: {len(data):,} events of {len(data.columns)} columns")
    warm_up(data)
    figures = {name: through_engine(data, *engine) for name, engine in ENGINES.items()}
    common.note("  " + "; ".join(f"{n} {f['events_per_s']:,.0f}/s" for n, f in figures.items()))
    return {"data": data.describe(), "models": figures | one_by_one(data, ONE_BY_ONE)}


def warm_up(data: Dataset) -> None:
    """Compile what the models compile, outside of what is timed."""
    few = data.first(_WARM)
    for engine in ENGINES.values():
        through_engine(few, *engine)
    model = _kernel(few.y.dtype == bool)
    for x, label in few.events(0, len(few)):
        model.predict_proba_one(x)
        model.learn_one(x, label)


# --- the report ---------------------------------------------------------------------------------

_FIGURES = (("accuracy", "accuracy", ".4f"), ("log loss", "log_loss", ".3f"))


def render(document: Mapping[str, Any]) -> str:
    """The tables: accuracy, log loss, events/s."""
    sets: Mapping[str, Any] = document["results"]
    names = list(next(iter(sets.values()))["models"])
    tables = []
    for title, key, form in (*_FIGURES, ("events/s", "events_per_s", ",.0f")):
        header = [title, *(name.partition("_")[0] for name in sets)]
        rows = [
            [name, *(format(found["models"][name][key], form) for found in sets.values())]
            for name in names
        ]
        tables.append(common.table(header, rows))
    counts = ", ".join(f"{name} {found['data']['events']:,}" for name, found in sets.items())
    return "\n\n".join([*tables, f"Events: {counts}.", common.origin(document)])


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.first_light", __doc__)
    parser.add_argument(
        "--events",
        type=int,
        default=EVENTS,
        metavar="N",
        help="first events of each set, 0 for all; many hours then (default: %(default)s)",
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="SET")
    options = parser.parse_args(argv)
    sets = [load(name, options.data, quick=options.quick) for name in options.sets]
    results = {data.name: measure(data.first(options.events)) for data in sets}
    settings = {
        "events": options.events,
        "seed": SEED,
        "in_turn": TURN,
        "engines": ENGINES,
    }
    common.finish("first_light", options, settings, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
