"""256 events predicted and learned: against scikit-learn, and one at a time against River.

scikit-learn: `RBFSampler.transform`, once for both, then `predict` and `partial_fit` of an
`SGDClassifier` with the logistic loss. Its `partial_fit` moves the coefficients 256 times; ours
once in mini-batches of 256 and 256 times in mini-batches of 1, both are shown. Ours is
`predict_many` and `learn_many` of `DoublyStochastic` with the logistic loss and as many features.
"learn" leaves `predict` out on both sides, not the transform.

River: `RBFSampler` and `LogisticRegression` against `DoublyStochasticClassifier`, each as many
features, `predict_one` and `learn_one` of a dict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.hot import SAMPLERS, Case, Clock

EVENTS = 256
CASES = (Case(1024, 54, EVENTS), Case(4096, 54, EVENTS), Case(4096, 784, EVENTS))
RIVER = Case(1024, 54)
GOAL = 3
"""scikit-learn's time over ours."""
MINI_BATCHES = (EVENTS, 1)


def measure(clock: Clock, *, quick: bool) -> dict[str, Any]:
    """Times, ratios and goals."""
    found: dict[str, Any] = {"cases": [], "goals": []}
    for case in CASES:
        _against_sklearn(clock, case.quick() if quick else case, found)
    found["river"] = _against_river(clock, RIVER.quick() if quick else RIVER)
    return found


def _against_sklearn(clock: Clock, case: Case, found: dict[str, Any]) -> None:
    common.note(f"batch of {EVENTS}, {case}")
    X, y = hot.numbers(case)[:2]
    labels = y > 0
    works = _sklearn(case, X, labels)
    for sampler, name in SAMPLERS.items():
        for size in MINI_BATCHES:
            works |= _ours(sampler, f"{name}, {size}", case, X, labels, size)
    times = clock.race(works)
    ratios = {}
    for name in SAMPLERS.values():
        for size in MINI_BATCHES:
            for what in ("learn", "predict + learn"):
                ours, theirs = f"{name}, {size}: {what}", f"scikit-learn: {what}"
                ratio = hot.ratio(times, theirs, ours)
                ratios[f"scikit-learn / {ours}"] = common.spread(ratio)
                if what == "predict + learn" and name == "dense" and size == EVENTS:
                    title = f"batch of {EVENTS} {case}: scikit-learn / {name}"
                    found["goals"].append(hot.goal(title, ratio, "x", least=GOAL))
    found["cases"].append({"case": str(case), "us": hot.spreads(times), "ratios": ratios})


def _sklearn(case: Case, X: Any, labels: Any) -> dict[str, hot.Work]:
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier

    gamma, m = 0.5 / case.columns, case.features
    sampler = RBFSampler(gamma=gamma, n_components=m, random_state=hot.SEED).fit(X)
    model = SGDClassifier(loss="log_loss", random_state=hot.SEED)
    model.partial_fit(sampler.transform(X), labels, classes=[False, True])

    def learn() -> None:
        model.partial_fit(sampler.transform(X), labels)

    def predict_and_learn() -> None:
        Z = sampler.transform(X)
        model.predict(Z)
        model.partial_fit(Z, labels)

    return {"scikit-learn: learn": learn, "scikit-learn: predict + learn": predict_and_learn}


def _ours(
    sampler: str, name: str, case: Case, X: Any, labels: Any, size: int
) -> dict[str, hot.Work]:
    from streamk.learners import DoublyStochastic

    model = DoublyStochastic(
        hot.kernel(case),
        loss="logistic",
        seed=hot.SEED,
        sampler=sampler,
        batch_size=size,
        block_size=case.features,
        max_features=case.features,
        classes=[False, True],
    )

    def learn() -> None:
        model.learn_many(X, labels)

    def predict_and_learn() -> None:
        model.predict_many(X)
        model.learn_many(X, labels)

    return {f"{name}: learn": learn, f"{name}: predict + learn": predict_and_learn}


def _against_river(clock: Clock, case: Case) -> dict[str, Any]:
    from river.feature_extraction import RBFSampler
    from river.linear_model import LogisticRegression

    from streamk.adapters.river import DoublyStochasticClassifier

    common.note(f"River, {case}")
    m = case.features
    row = np.random.default_rng(hot.SEED).normal(size=case.columns)
    x = {f"x{j}": float(value) for j, value in enumerate(row)}
    river = "River RBFSampler + LogisticRegression"
    models: dict[str, Any] = {
        river: RBFSampler(n_components=m, seed=hot.SEED) | LogisticRegression()
    }
    for sampler, name in SAMPLERS.items():
        models[f"DoublyStochasticClassifier, {name}"] = DoublyStochasticClassifier(
            sampler=sampler, block_size=m, max_features=m, seed=hot.SEED
        )

    def work(model: Any) -> hot.Work:
        def predict_and_learn() -> None:
            model.predict_one(x)
            model.learn_one(x, True)

        return predict_and_learn

    times = clock.race({name: work(model) for name, model in models.items()})
    ratios = {
        f"River / {name}": common.spread(hot.ratio(times, river, name)) for name in [*models][1:]
    }
    return {"case": str(case), "us": hot.spreads(times), "ratios": ratios}


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    tables = hot.case_tables(f"batch of {EVENTS}", found["cases"])
    river = found["river"]
    rows = [[name, *common.ranged(figure, 1)] for name, figure in river["us"].items()]
    rows += [[name, *common.ranged(figure, 1)] for name, figure in river["ratios"].items()]
    single = common.table(
        [f"one dict event, predicted + learned, {river['case']}, µs", "median", "range"], rows
    )
    return f"{tables}\n\n{single}"
