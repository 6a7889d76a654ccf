"""A dozen figures, one of each kind, for the first page of the benchmarks.

Each row reads its figures from the results of the benchmark that took them, so that the page says
what these say. A row that waits for its figures is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.doubly_stochastic import rate
from benchmarks.eigenpro import rivals
from benchmarks.intervals import cell
from benchmarks.river_battery import front, standing
from benchmarks.river_battery.ours import NAME
from benchmarks.speed import river

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Headline:
    """One row.

    Parameters
    ----------
    what : str
        The figure, with the data and its unit.
    ours, other : function of the results
        The figure as text, and that of the rival.
    rival : str
        Empty where there is none.
    results : str
        The name of the results, and of the module that takes them.
    page : str
        The page with the rest.
    is_pending : bool, default False
        Whether the figures may not be among the results yet.
    """

    what: str
    ours: Callable[[Results], str]
    other: Callable[[Results], str]
    rival: str
    results: str
    page: str
    is_pending: bool = False


def spread(figure: Mapping[str, float], form: str = ",.0f") -> str:
    """Return a median with the least and greatest value."""
    return f"{figure['median']:{form}} ({figure['low']:{form}} to {figure['high']:{form}})"


def _rank(results: Results, key: str, names: Any, *, next_one: bool) -> str:
    figures = front.now({"results": results})
    ranks = standing.mean_ranks(figures, standing.streams_of(figures, names), key)
    if not next_one:
        return f"{ranks[NAME]:.2f} of {len(ranks)}"
    rank, name = min((rank, name) for name, rank in ranks.items() if name != NAME)
    return f"{rank:.2f}, {name}"


def _problem(results: Results, part: str, name: str, kernel: str | None = None) -> Any:
    for one in results[part]["problems"]:
        if one["problem"] == name and kernel in (None, one.get("kernel")):
            return one["methods"]
    raise KeyError(name)


def _task(results: Results, name: str) -> Any:
    return next(one["methods"] for one in results["table2"]["tasks"] if one["task"] == name)


def _of_engine(results: Results, *, case: str) -> str:
    return spread(results["rates"]["events_per_s"][case])


def _first(results: Results, *, model: str) -> str:
    shares = [one["models"][model]["accuracy"] for one in results.values()]
    return f"{100 * sum(shares) / len(shares):.1f}"


def _through_river(results: Results, *, name: str) -> str:
    return spread(results["river"]["events_per_s"][name])


_PLAIN = ", without a metric"

HEADLINES = (
    Headline(
        "mean rank by accuracy, streams of classes, labels at once",
        lambda r: _rank(r, "accuracy", front.CLASSES, next_one=False),
        lambda r: _rank(r, "accuracy", front.CLASSES, next_one=True),
        "the next of all models",
        "river_battery",
        "river_battery",
    ),
    Headline(
        "mean rank by MAE, streams of numbers, labels at once",
        lambda r: _rank(r, "mae", front.NUMBERS, next_one=False),
        lambda r: _rank(r, "mae", front.NUMBERS, next_one=True),
        "the next of all models",
        "river_battery",
        "river_battery",
    ),
    *(
        Headline(
            f"accuracy, %, mean of five streams of 20,000 events{model}",
            partial(_first, model=name),
            partial(_first, model="River ARF, 10 trees"),
            "River ARF, 10 trees",
            "first_light",
            "first_light",
            is_pending=not model,
        )
        for model, name in (("", "streamk, engine"), (_PLAIN, "streamk, engine, no metric"))
    ),
    *(
        Headline(
            f"events a second through River's protocol, elec2{model}",
            partial(_through_river, name=name),
            partial(_through_river, name=river.FOREST),
            "River ARF, 10 trees",
            "speed",
            "speed",
            is_pending=not model,
        )
        for model, name in (("", river.OURS), (_PLAIN, river.PLAIN))
    ),
    *(
        Headline(
            f"events a second of `streamk run{options}`, {way}",
            partial(_of_engine, case=f"{model}: {case}"),
            partial(_of_engine, case=other.format(model)),
            rival,
            "engine",
            "engine",
            is_pending=not options,
        )
        for model, options in (("default", ""), ("no metric", " --expert none"))
        for way, case, other, rival in (
            ("file", "file", "{}: learner alone", "the learner alone"),
            (
                "topic",
                "topic, confluent",
                "client alone: reading, confluent",
                "the Kafka client alone",
            ),
        )
    ),
    Headline(
        "seconds of a first use, empty cache, two cores",
        lambda r: _seconds(r, "now"),
        lambda r: _seconds(r, "before"),
        "before the loops were compiled in parts",
        "first_use",
        "first_use",
    ),
    Headline(
        "µs of 4,096 random features of one event, 784 columns",
        lambda r: spread(_feature_case(r)["Hadamard, compiled"], ".1f"),
        lambda r: spread(_feature_case(r)["NumPy"], ".1f"),
        "NumPy, independent frequencies",
        "features",
        "features",
    ),
    Headline(
        "test error, %, Adult, one pass",
        lambda r: f"{r['median']:.2f}",
        lambda _: "15.3",
        "the paper (Dai et al., 2014)",
        "adult",
        "adult",
    ),
    Headline(
        "slope of the squared distance to the optimum in t, log-log, nu 0.1",
        lambda r: cell(_rate(r)["slope"], 2),
        lambda _: "-1",
        "Theorem 4 of the paper",
        "doubly_stochastic",
        "doubly_stochastic",
    ),
    Headline(
        "kB of a model saved after 16,384 events, 784 columns",
        lambda r: f"{_stored(r, 'ours, Hadamard'):,.0f}",
        lambda r: f"{_stored(r, 'NORMA'):,.0f}",
        "NORMA",
        "doubly_stochastic",
        "doubly_stochastic",
    ),
    Headline(
        "error of 450 landmarks, Two Moons",
        lambda r: f"{_problem(r, 'table1', 'Two Moons', 'gaussian')['oASIS']['error']:.1e}",
        lambda r: f"{_problem(r, 'table1', 'Two Moons', 'gaussian')['uniform']['error']:.1e}",
        "uniform sampling",
        "oasis",
        "oasis",
    ),
    Headline(
        "error of MEKA, pendigits, five seeds",
        lambda r: spread(_problem(r, "table7", "pendigits")["MEKA"]["error"], ".3f"),
        lambda r: spread(_problem(r, "table7", "pendigits")["KNys"]["error"], ".3f"),
        "k-means Nyström of the same memory",
        "meka",
        "meka",
    ),
    Headline(
        "seconds to train an SVM on ijcnn1 (BKA-SVM)",
        lambda r: spread(_task(r, "ijcnn1")["BKA-SVM"]["seconds"], ".2f"),
        lambda r: spread(_task(r, "ijcnn1")["LIBSVM"]["seconds"], ".2f"),
        "LIBSVM",
        "meka",
        "meka",
    ),
    Headline(
        "seconds of EigenPro 3 on MNIST, 1,000 centers, to equal accuracy",
        lambda r: f"{_to_equal_accuracy(r['rivals'], 'eigenpro, 1,000 centers'):.1f}",
        lambda r: f"{_mean(r['rivals']['rivals'][rivals.AUTHORS], 'seconds'):.1f}",
        "the authors' PyTorch code",
        "eigenpro",
        "eigenpro",
    ),
    Headline(
        "accuracy, %, last tenth of covtype, kernel ridge as external expert (`--expert`)",
        lambda r: f"{100 * _of_covtype(r, 'kernel-ridge, all events'):.1f}",
        lambda r: f"{100 * _of_covtype(r, 'none'):.1f}",
        "no external expert",
        "eigenpro",
        "eigenpro",
    ),
)


def _rate(results: Results) -> Any:
    rows = results["rate"]["rows"]
    return next(row for row in rows if row["nu"] == 0.1 and row["rule"] == rate.RULES[1])


def _stored(results: Results, method: str) -> float:
    """Kilobytes of the last row of MNIST."""
    rows = [row for row in results["storage"]["rows"] if row["set"] == "mnist"]
    found: float = [row["stored"]["mean"] for row in rows if row["method"] == method][-1]
    return found / 1e3


def _mean(runs: Any, key: str) -> float:
    return sum(run[key] for run in runs) / len(runs)


def _to_equal_accuracy(part: Results, ours: str) -> float:
    accuracy = _mean(part["rivals"][rivals.AUTHORS], "accuracy")
    times = [rivals.reached(curve, accuracy) for curve in part["ours"][ours]]
    return sum(time for time in times if time is not None) / len(times)


def _of_covtype(results: Results, expert: str) -> float:
    found: float = results["experts"]["covtype_subset93k"]["experts"][expert]["last"]
    return found


def _seconds(results: Results, version: str) -> str:
    rounds = results["versions"][version]["command, empty cache, 2 cores"]
    walls = [one["wall"] for one in rounds]
    return f"{min(walls):.1f} to {max(walls):.1f}"


def _feature_case(results: Results) -> Any:
    cases = results["one"]["cases"]
    return next(case["us"] for case in cases if case["case"] == "m=4,096 d=784")


def render(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table, in Markdown, of results by their names."""
    lines = ["| figure | streamk | beside | measured by |", "|---|---|---|---|"]
    for one in HEADLINES:
        results = documents[one.results]["results"]
        page = f"[{one.results}](../docs/benchmarks/{one.page}.md)"
        with contextlib.suppress(*([KeyError] if one.is_pending else [])):
            beside = f"{one.other(results)} ({one.rival})"
            lines.append(f"| {one.what} | {one.ours(results)} | {beside} | {page} |")
    return "\n".join(lines)
