"""A dozen figures, one of each kind, for the first page of the benchmarks.

Each row reads its figures from the results of the benchmark that took them, so that the page says
what these say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import battery_tables, doubly_stochastic, eigenpro, speed
from benchmarks.common import cell
from benchmarks.rivals import NAME

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
    results : str
        The name of the results, of the module that takes them, and of the page with the rest.
    """

    what: str
    ours: Callable[[Results], str]
    other: Callable[[Results], str]
    rival: str
    results: str


def spread(figure: Mapping[str, float], form: str = ",.0f") -> str:
    """Return a median with the least and greatest value."""
    return f"{figure['median']:{form}} ({figure['low']:{form}} to {figure['high']:{form}})"


def _rank(results: Results, key: str, names: Any, *, next_one: bool) -> str:
    figures = battery_tables.now({"results": results})
    streams = battery_tables.streams_of(figures, names)
    ranks = battery_tables.mean_ranks(figures, streams, key)
    if not next_one:
        return f"{ranks[NAME]:.2f} of {len(ranks)}"
    rank, name = min((rank, name) for name, rank in ranks.items() if name != NAME)
    return f"{rank:.2f}, {name}"


def _problem(results: Results, part: str, name: str, kernel: str | None = None) -> Any:
    for one in results[part]["problems"]:
        if one["problem"] == name and kernel in (None, one.get("kernel")):
            return one["methods"]
    raise KeyError(name)


def _of_engine(results: Results, *, case: str) -> str:
    return spread(results["rates"]["events_per_s"][case])


def _through_river(results: Results, *, name: str) -> str:
    return spread(results["river"]["events_per_s"][name])


def _rate(results: Results) -> Any:
    rows = results["rate"]["rows"]
    rule = doubly_stochastic.RULES[1]
    return next(row for row in rows if row["nu"] == 0.1 and row["rule"] == rule)


def _stored(results: Results, method: str) -> float:
    """Kilobytes of the last row of MNIST."""
    rows = [row for row in results["storage"]["rows"] if row["set"] == "mnist"]
    found: float = [row["stored"]["mean"] for row in rows if row["method"] == method][-1]
    return found / 1e3


def _mean(runs: Any, key: str) -> float:
    return sum(run[key] for run in runs) / len(runs)


def _to_equal_accuracy(part: Results, ours: str) -> float:
    accuracy = _mean(part["rivals"][eigenpro.AUTHORS], "accuracy")
    times = [eigenpro.reached(curve, accuracy) for curve in part["ours"][ours]]
    return sum(time for time in times if time is not None) / len(times)


def _of_covtype(results: Results, expert: str) -> str:
    found = results["experts"]["covtype_subset93k"]["experts"][expert]["last"]
    return f"{100 * found:.1f}"


def _features(results: Results, *, name: str) -> str:
    cases = results["one"]["cases"]
    us = next(case["us"] for case in cases if case["case"] == "m=4,096 d=784")
    return spread(us[name], ".1f")


_PLAIN = ", without a metric"

HEADLINES = (
    *(
        Headline(
            f"mean rank by {title}, streams of {what}, labels at once",
            partial(_rank, key=key, names=names, next_one=False),
            partial(_rank, key=key, names=names, next_one=True),
            "the next of all models",
            "river_battery",
        )
        for title, what, key, names in (
            ("accuracy", "classes", "accuracy", battery_tables.CLASSES),
            ("MAE", "numbers", "mae", battery_tables.NUMBERS),
        )
    ),
    *(
        Headline(
            f"events a second through River's protocol, elec2{model}",
            partial(_through_river, name=name),
            partial(_through_river, name=speed.FOREST),
            "River ARF, 10 trees",
            "speed",
        )
        for model, name in (("", speed.OURS), (_PLAIN, speed.PLAIN))
    ),
    *(
        Headline(
            f"events a second of `streamk run{options}`, {way}",
            partial(_of_engine, case=f"{model}: {case}"),
            partial(_of_engine, case=other.format(model)),
            rival,
            "engine",
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
        "µs of 4,096 random features of one event, 784 columns",
        partial(_features, name="Hadamard, public"),
        partial(_features, name="NumPy"),
        "NumPy, independent frequencies",
        "features",
    ),
    Headline(
        "test error, %, Adult, one pass",
        lambda r: f"{r['median']:.2f}",
        lambda _: "15.3",
        "the paper (Dai et al., 2014)",
        "adult",
    ),
    Headline(
        "slope of the squared distance to the optimum in t, log-log, nu 0.1",
        lambda r: cell(_rate(r)["slope"], 2),
        lambda _: "-1",
        "Theorem 4 of the paper",
        "doubly_stochastic",
    ),
    Headline(
        "kB of a model saved after 16,384 events, 784 columns",
        lambda r: f"{_stored(r, 'ours, Hadamard'):,.0f}",
        lambda r: f"{_stored(r, 'NORMA'):,.0f}",
        "NORMA",
        "doubly_stochastic",
    ),
    Headline(
        "error of 450 landmarks, Two Moons",
        lambda r: f"{_problem(r, 'table1', 'Two Moons', 'gaussian')['oASIS']['error']:.1e}",
        lambda r: f"{_problem(r, 'table1', 'Two Moons', 'gaussian')['uniform']['error']:.1e}",
        "uniform sampling",
        "oasis",
    ),
    Headline(
        "error of MEKA, pendigits, five seeds",
        lambda r: spread(_problem(r, "table7", "pendigits")["MEKA"]["error"], ".3f"),
        lambda r: spread(_problem(r, "table7", "pendigits")["KNys"]["error"], ".3f"),
        "k-means Nyström of the same memory",
        "meka",
    ),
    Headline(
        "seconds of EigenPro 3 on MNIST, 1,000 centers, to equal accuracy",
        lambda r: f"{_to_equal_accuracy(r['rivals'], 'eigenpro, 1,000 centers'):.1f}",
        lambda r: f"{_mean(r['rivals']['rivals'][eigenpro.AUTHORS], 'seconds'):.1f}",
        "the authors' PyTorch code",
        "eigenpro",
    ),
    Headline(
        "accuracy, %, last tenth of covtype, kernel ridge as external expert (`--expert`)",
        partial(_of_covtype, expert="kernel-ridge, all events"),
        partial(_of_covtype, expert="none"),
        "no external expert",
        "eigenpro",
    ),
)


def render(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table, in Markdown, of results by their names."""
    lines = ["| figure | streamk | beside | measured by |", "|---|---|---|---|"]
    for one in HEADLINES:
        results = documents[one.results]["results"]
        page = f"[{one.results}](../docs/benchmarks/{one.results}.md)"
        beside = f"{one.other(results)} ({one.rival})"
        lines.append(f"| {one.what} | {one.ours(results)} | {beside} | {page} |")
    return "\n".join(lines)
