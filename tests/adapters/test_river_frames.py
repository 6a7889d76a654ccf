"""Data frames of several libraries through River's estimators: as their rows one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from estimators_kit import people, rows_of

from streamk.adapters.river import DoublyStochasticRegressor, KernelClassifier, KernelRegressor
from streamk.errors import InvalidInput

N = 60
ESTIMATORS: dict[str, Any] = {
    "classifier": lambda: KernelClassifier(seed=1),
    "regressor": lambda: KernelRegressor(seed=1),
    "one kernel": lambda: DoublyStochasticRegressor(seed=1, max_features=64, block_size=64),
}


def of(library: str, frame: pd.DataFrame) -> Any:
    if library == "pandas":
        return frame
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if library == "arrow":
        return table
    return pytest.importorskip("polars", reason="Polars is not installed").from_arrow(table)


def column(library: str, frame: pd.DataFrame, name: str) -> Any:
    table = of(library, frame[[name]])
    return table.column(name) if library == "arrow" else table[name]


LIBRARIES = ("pandas", "arrow", "polars")


@pytest.mark.parametrize(
    ("library", "made", "only_numbers"),
    [
        (library, made, (n + m) % 2 == 0)
        for n, library in enumerate(LIBRARIES)
        for m, made in enumerate(ESTIMATORS.values())
    ],
)
def test_a_frame_is_its_rows(library: str, made: Any, only_numbers: bool) -> None:
    frame = people(N)
    if only_numbers:
        frame = frame[["age", "visits", "member"]]
    rows = rows_of(frame)
    many, one = made(), made()
    numbers = isinstance(one, KernelRegressor | DoublyStochasticRegressor)
    y = pd.DataFrame({"y": np.arange(N) * 0.5 if numbers else np.arange(N) % 3 > 0})
    for part in (slice(0, 25), slice(25, N)):
        some = frame.iloc[part].reset_index(drop=True)
        labels = y.iloc[part].reset_index(drop=True)
        many.learn_many(of(library, some), column(library, labels, "y"))
    for row, label in zip(rows, y["y"].tolist(), strict=True):
        one.learn_one(row, label)
    assert many._model.learner.columns == one._model.learner.columns
    table = of(library, frame)
    found = many.predict_many(table)
    assert type(found) is type(column(library, y, "y"))
    expected = [one.predict_one(row) for row in rows]
    assert (found.to_pylist() if library == "arrow" else list(found)) == expected
    if not numbers:
        P = many.predict_proba_many(table)
        assert type(P) is type(table)
        proba = [one.predict_proba_one(row)[True] for row in rows]
        last = P.column(1).to_pylist() if library == "arrow" else np.asarray(P)[:, 1].tolist()
        assert last == proba


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_time_past_pythons_years_is_refused_by_name(library: str) -> None:
    table = pa.table({"a": [1.0, 2.0], "when": pa.array([0, 10**12], pa.timestamp("ms"))})
    far = table.set_column(1, "when", pa.array([0, 10**15], pa.timestamp("ms")))

    def of_it(some: pa.Table) -> Any:
        if library == "arrow":
            return some
        if library == "polars":
            return pytest.importorskip("polars", reason="needs Polars").from_arrow(some)
        return some.to_pandas()

    model, y = KernelClassifier(seed=1), column(library, pd.DataFrame({"y": [True, False]}), "y")
    model.learn_many(of_it(table), y)
    with pytest.raises(InvalidInput, match="column 'when'"):
        model.learn_many(of_it(far), y)
    model.learn_many(of_it(table), y)  # it goes on
