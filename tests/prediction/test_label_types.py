"""Labels of every type come back as they are, in every form, or are refused by their names."""

from __future__ import annotations

import enum
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from c_kit import Header
from forms_kit import by_onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from local_kernels_kit import compiled as with_classes
from local_kernels_kit import events, made

from streamk.errors import InvalidInput
from streamk.export import to_c, to_onnx
from streamk.learners import create
from streamk.prediction import CompiledModel, dc_pred, load
from streamk.prediction import compile as compiled
from streamk.state import State

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")


class Colour(str, enum.Enum):  # noqa: UP042 (str() of a member is no label, unlike StrEnum's)
    RED = "red"
    GREEN = "green"


class Size(enum.IntEnum):
    SMALL = 3
    LARGE = 40


class Word(str):
    __slots__ = ()


LABELS: list[tuple[list[Any], str | None, str | None]] = [
    (["a", "b"], None, None),
    (["größer", "日本", ""], None, None),
    ([False, True], None, None),
    ([3, -7, 2**63 - 1], None, None),
    ([Colour.RED, Colour.GREEN], None, None),
    ([Size.SMALL, Size.LARGE], None, None),
    ([Word("a"), "b"], None, None),
    ([np.str_("a"), np.str_("b")], None, None),
    ([np.int64(1), np.int8(2)], None, None),
    ([1.0, 2.0], None, None),
    (["nan", "None", "true"], None, None),
    ([0, 2**64 - 1], None, "class 18446744073709551615 is too large"),
    ([False, True, "unknown"], None, "'unknown' .*have two types"),
    ([False, True, 2], None, " 2 .*have two types"),
    ([1, "a"], None, "'a' .*have two types"),
    (["1", 1], "'1' .*are the same text", "'1' .*have two types"),
    ([False, True, "true"], "'true' .*are the same text", "have two types"),
    (["\ud800", "b"], r"'\\ud800' has half of a surr", r"'\\ud800' has half of a surr"),
    (["a\0", "a"], r"'a\\x00' has a null character", r"'a\\x00' has a null character"),
]
"""Labels, and what is said of them where C and ONNX do not have them."""


def learned(labels: list[Any]) -> tuple[Any, Any]:
    """A learner of these labels, and events of each."""
    X = np.random.default_rng(0).normal(size=(240, 2))
    k = np.digitize(X[:, 0], np.linspace(-1, 1, len(labels) + 1)[1:-1])
    learner = create("doubly-stochastic", task="classification", seed=1, max_features=128)
    learner.learn_many(X, [labels[place] for place in k])
    return learner, X


def told(labels: Any) -> list[tuple[type, Any]]:
    return [(type(label), label) for label in labels]


@pytest.mark.parametrize(("labels", "by_c", "by_onnx_"), LABELS, ids=lambda one: repr(one)[:40])
def test_they_come_back_or_are_refused(
    labels: list[Any], by_c: str | None, by_onnx_: str | None, tmp_path: Path
) -> None:
    learner, X = learned(labels)
    fast = compiled(learner, X, budget=3)
    expected = told(fast.predict_many(X))
    assert {kind for kind, _ in expected} <= {str, int, bool}
    assert {label for _, label in expected} == set(labels)
    fast.save(tmp_path / "model.safetensors")
    state = State(json.loads(json.dumps(fast.state().header)), fast.state().arrays)
    for again in (
        load(tmp_path / "model.safetensors"),
        CompiledModel.from_state(state),
        pickle.loads(pickle.dumps(fast)),
    ):
        assert told(again.predict_many(X)) == expected
        assert told([again.predict_one(X[0])]) == expected[:1]
        assert told(again.predict_proba_one(X[0])) == told(fast.classes)
    if by_c is None:
        header = Header(fast, tmp_path)
        places = header.predict(X)[1].astype(int)
        assert told(fast.classes[place] for place in places) == expected
        names = [json.dumps(one) if isinstance(one, bool) else str(one) for one in fast.classes]
        assert header.names("class_name", len(labels)) == names
    else:
        with pytest.raises(InvalidInput, match=by_c):
            to_c(fast, tmp_path / "model.h")
    if by_onnx_ is None:
        to_onnx(fast, tmp_path / "model.onnx")
        assert told(by_onnx(tmp_path / "model.onnx", X)[0].tolist()) == expected
    else:
        with pytest.raises(InvalidInput, match=by_onnx_):
            to_onnx(fast, tmp_path / "model.onnx")


class Members:
    """An estimator of members of enumerations, whose hashes are those of their names."""

    classes_ = (Colour.RED, Colour.GREEN)

    def predict_proba(self, X: Any) -> Any:
        return np.where(X[:, :1] > 0, [0.9, 0.1], [0.2, 0.8])

    def predict(self, X: Any) -> Any:
        return np.array([Colour.RED if row[0] > 0 else Colour.GREEN for row in X], object)

    def predict_proba_one(self, x: Any) -> Any:
        return dict(zip(self.classes_, self.predict_proba(np.array([[x["a"]]]))[0], strict=True))


class MembersOfRiver(Members):
    def predict_one(self, x: Any) -> Any:
        return self.predict(np.array([[x["a"]]]))[0]


@pytest.mark.parametrize("model", [Members(), MembersOfRiver()])
def test_a_copy_decides_on_members_by_their_values(model: Any) -> None:
    X = pd.DataFrame({"a": np.random.default_rng(0).normal(size=100)})
    fast = (
        compiled(model, X, budget=3)
        if hasattr(model, "predict_one")
        else compiled(model, X.to_numpy(), budget=3)
    )
    assert fast.predict_many([[2.0], [-2.0]]).tolist() == ["red", "green"]


SOME = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(max_size=4), st.just("\udfff")
)


@settings(max_examples=25, deadline=None)
@given(st.lists(SOME, min_size=2, max_size=4, unique_by=lambda label: (str(label), label)))
def test_whatever_they_are(labels: list[Any]) -> None:
    """None are taken for others by ONNX: they come back, or are refused."""
    pytest.importorskip("onnx")
    if len(set(labels)) < len(labels):  # True and 1
        return
    outputs = len(labels) if len(labels) > 2 else 1
    model = with_classes(made(n_outputs=outputs, leaves=2, d=2), tuple(labels))
    X = events(50, 2).astype(np.float32)
    X[np.abs(X) > 1e6] = 0.0
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            to_onnx(model, path)
        except InvalidInput:
            plain = len(set(map(type, labels))) == 1
            whole = all(not isinstance(one, int) or one < 2**63 for one in labels)
            odd = any(isinstance(one, str) and ("\udfff" in one or "\0" in one) for one in labels)
            assert not plain or not whole or odd
            return
        found, P = by_onnx(path, X)
    places = P.argmax(axis=1)
    top = np.sort(P, axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-6
    expected = [labels[place] for place in places[clear]]
    assert told(found[clear].tolist()) == told(expected)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["1", 1], "of several types"),
        ([1, True, 0], "such as 1 and True are the same"),
        ([b"a", b"b"], r"row 0, b'a', must be a text"),
        ([None, "a"], "row 0, None, must be a text"),
        ([0.5, 1.0], "row 0, 0.5, must be a text"),
    ],
)
@pytest.mark.parametrize("form", [list, lambda y: np.array(y, object)])
def test_labels_to_train_on_are_taken_as_they_are(y: list[Any], message: str, form: Any) -> None:
    with pytest.raises(InvalidInput, match=message):
        dc_pred(np.arange(len(y))[:, None] * 1.0, form(y), leaves=1, landmarks=1)
