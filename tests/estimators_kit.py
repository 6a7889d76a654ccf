"""Estimators of River and scikit-learn whose options make tests short."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from streamk.adapters import river, sklearn

_SMALL: dict[str, dict[str, Any]] = {
    "Kernel": {"external_experts": []},
    "DoublyStochastic": {"max_features": 64, "block_size": 64},
    "Nystrom": {"max_landmarks": 16},
    "StreamingMeka": {"rank": 4, "n_clusters": 2, "first": 64, "swap_delay": 16},
    "KernelRidge": {"max_centers": 64},
    "EigenPro": {"n_centers": 16, "batch_size": 8},
    "FeatureMachine": {"metric": "diagonal", "first": 64, "every": 64, "swap_delay": 16},
    "DCPred": {"iterations": 5},
}


def small(name: str) -> dict[str, Any]:
    """Return options by which an estimator of that name has little to do."""
    return _SMALL.get(name.removesuffix("Classifier").removesuffix("Regressor"), {})


def of_river(name: str, seed: int | None = 1, **options: Any) -> Any:
    """Return a small estimator of River; one that wraps a model wraps that of many kernels."""
    if name.startswith("Conformal"):
        return getattr(river, name)(of_river(name.replace("Conformal", "Kernel")))
    seeded = {} if name.startswith("Nystrom") else {"seed": seed}
    return getattr(river, name)(**seeded, **small(name), **options)


def of_sklearn(name: str, **options: Any) -> Any:
    """Return a small estimator of scikit-learn."""
    model = getattr(sklearn, name)(**small(name), **options)
    seeded = "random_state" in model.get_params()
    return model.set_params(random_state=0) if seeded else model


def people(n: int = 60) -> pd.DataFrame:
    """Numbers, whole ones with nulls, texts, a category and dates, all with some missing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "visits": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "town": rng.choice(["Rome", "Oslo", "12"], n),
            "size": pd.Categorical(rng.choice(["small", "large"], n)),
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), "h"),
            "member": rng.random(n) > 0.5,
        }
    )
    for first, name in enumerate(frame.columns[:-1]):
        frame.loc[first + 1 :: 7 + first, name] = None
    return frame


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as somebody would write them by hand."""
    missing = frame.isna()
    return [
        {name: None if missing[name].iloc[n] else frame[name].iloc[n] for name in frame.columns}
        for n in range(len(frame))
    ]
