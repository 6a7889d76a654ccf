"""Labels of classifiers of scikit-learn: as they came, whatever library they are of."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from estimators_kit import of_sklearn
from sklearn.base import is_classifier

from streamk.adapters import sklearn
from streamk.errors import InvalidInput

CLASSIFIERS = [name for name in sklearn.__all__ if is_classifier(getattr(sklearn, name)())]
X = np.random.default_rng(0).normal(size=(40, 2))
SIDE = X[:, 0] > 0
BIG = 2**60


def kinds() -> dict[str, tuple[Any, Any]]:
    """Return labels in many forms, and the two classes."""
    texts, whole = np.where(SIDE, "p", "n"), np.where(SIDE, BIG + 2, BIG + 1)
    found: dict[str, tuple[Any, Any]] = {
        "texts": (texts, ("n", "p")),
        "list of texts": (texts.tolist(), ("n", "p")),
        "objects": (texts.astype(object), ("n", "p")),
        "whole": (whole, (BIG + 1, BIG + 2)),
        "list of whole": (whole.tolist(), (BIG + 1, BIG + 2)),
        "booleans": (SIDE.tolist(), (False, True)),
        "pandas Int64": (pd.Series(whole, dtype="Int64"), (BIG + 1, BIG + 2)),
        "pandas boolean": (pd.Series(SIDE, dtype="boolean"), (False, True)),
        "polars": (pl.Series(whole), (BIG + 1, BIG + 2)),
        "polars booleans": (pl.Series(SIDE), (False, True)),
        "arrow": (pa.chunked_array([whole[:7], whole[7:]]), (BIG + 1, BIG + 2)),
        "polars categories": (pl.Series(texts, dtype=pl.Categorical), ("n", "p")),
    }
    for dtype in ("string", "category", "string[pyarrow]", object):
        found[f"pandas {dtype}"] = (pd.Series(texts, dtype=dtype), ("n", "p"))
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("NystromClassifier", kind) for kind in kinds()),
        *((name, ("objects", "pandas Int64")[n % 2]) for n, name in enumerate(CLASSIFIERS)),
    ],
)
def test_labels_come_back_as_they_came(name: str, kind: str) -> None:
    y, classes = kinds()[kind]
    model = of_sklearn(name).fit(X, y)
    assert model.classes_.tolist() == list(classes)
    assert type(model.classes_.tolist()[0]) is type(classes[0])
    assert np.mean(model.predict(X) == np.array(classes)[SIDE.astype(int)]) > 0.8
    if hasattr(model, "partial_fit"):
        streamed = of_sklearn(name).partial_fit(pd.DataFrame(X, columns=["a", "b"]), y, classes=y)
        assert streamed.classes_.tolist() == list(classes)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("missing", [None, pd.NA, pd.NaT, math.nan, decimal.Decimal("nan")])
def test_a_missing_label_is_named(name: str, missing: Any) -> None:
    texts: list[Any] = np.where(SIDE, "p", "n").tolist()
    texts[7] = missing
    ways: list[Any] = [texts, tuple(texts), np.array(texts, object), pd.Series(texts, dtype=object)]
    if missing is None:
        ways += [pd.Series(texts, dtype="string"), pl.Series(texts), pa.chunked_array([texts])]
        ways += [pd.Series(texts, dtype="category")]
        ways += [pd.Series([None if t is None else t == "p" for t in texts], dtype="boolean")]
    for y in ways:
        with pytest.raises(InvalidInput, match="the label of row 7 is missing"):
            of_sklearn(name).fit(X, y)
    if hasattr(of_sklearn(name), "partial_fit"):
        with pytest.raises(InvalidInput, match="the label of row 7 is missing"):
            of_sklearn(name).partial_fit(X, texts, classes=["n", "p"])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_texts_and_numbers_are_not_mixed(name: str) -> None:
    for other in (1, True, 2.0):
        for y in ([*["1"] * 20, *[other] * 20], np.array([*["a"] * 20, *[other] * 20], object)):
            with pytest.raises(InvalidInput, match="some labels are texts and others are not"):
                of_sklearn(name).fit(X, y)
