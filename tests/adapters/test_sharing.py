"""Models that threads share: each is answered for its own event, and nothing is lost."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimators_kit import of_river
from estimators_kit import of_sklearn as small_of_sklearn
from river import base
from sklearn.base import clone, is_classifier

from streamk.adapters import river, sklearn
from streamk.adapters.river import ConformalClassifier, ConformalRegressor, MMDDrift
from streamk.adapters.rows import Model
from streamk.learners import FeatureMachine, MultiKernel

THREADS = 8


def of_sklearn(name: str) -> Any:
    model = small_of_sklearn(name)
    return model.set_output(transform="pandas") if hasattr(model, "transform") else model


LEARNING = [name for name in river.__all__ if name != "MMDDrift"]  # which predicts nothing


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Switch between threads as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[], None]) -> None:
    """Do all of this at once, each in a thread; raise what any of them raises."""
    raised: list[BaseException] = []
    ready = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        ready.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def is_of_classes(model: Any) -> bool:
    return hasattr(model, "predict_proba_one")


def events(seed: int, n: int, *, many: int = 4) -> list[tuple[dict[Any, Any], float]]:
    """Events whose columns come one after the other, with a number to learn."""
    rng = np.random.default_rng(seed)
    found: list[tuple[dict[Any, Any], float]] = []
    for k in range(n):
        a, b = rng.normal(size=2).tolist()
        x = {"a": a, "b": b, f"c{k * many // n}": 1.0, "t": f"t{rng.integers(many)}"}
        found.append((x, a - b))
    return found


def label(model: Any, y: float) -> Any:
    return y if not is_of_classes(model) else ("up" if y > 0 else "down")


def answers_of(model: Any, x: dict[Any, Any]) -> dict[str, Any]:
    """Return all that a model of River has to say of an event, by the names of its methods."""
    found: dict[str, Any] = {}
    for name in dir(model):
        if not name.startswith("predict") and name != "debug_one":
            continue
        ask = getattr(model, name)
        said = ask(pd.DataFrame([x])) if name.endswith("many") else ask(x)
        found[name] = said.to_numpy().tolist() if name.endswith("many") else said
    if isinstance(model, ConformalRegressor):
        interval = model.predict_one(x, with_interval=True)
        found["with_interval"] = (interval.lower, interval.upper)
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", LEARNING)
def test_an_answer_is_by_a_state_between_two_events(name: str) -> None:
    model = of_river(name)
    for x, y in events(0, 16, many=1):
        model.learn_one(x, label(model, y))
    asked = [{"a": a, "b": 0.5, "c2": 1.0} for a in (-1.0, 0.0, 1.0)]
    twin, coming = copy.deepcopy(model), events(1, 40)
    known = [[answers_of(twin, x)] for x in asked]
    for x, y in coming:
        twin.learn_one(x, label(twin, y))
        for said, other in zip(known, asked, strict=True):
            said.append(answers_of(twin, other))
    done = threading.Event()

    def learn() -> None:
        for x, y in coming:
            model.learn_one(x, label(model, y))
        done.set()

    def ask(k: int) -> None:
        while not done.is_set():
            for method, said in answers_of(model, asked[k]).items():
                assert said in [one[method] for one in known[k]], method

    together(learn, *(lambda k=k: ask(k) for k in range(3)))  # type: ignore[misc]
    assert [answers_of(model, x) for x in asked] == [said[-1] for said in known]


class Disturbed:
    """Whenever a model has read, another thread begins something, and gets a moment for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[int], Any]) -> None:
        self.others, self._act = list[threading.Thread](), act
        for reads in ("row", "rows", "rows_of_columns"):
            monkeypatch.setattr(Model, reads, self._around(getattr(Model, reads)))

    def _around(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*given: Any) -> Any:
            found = read(*given)
            if threading.current_thread() not in self.others:
                other = threading.Thread(target=self._act, args=[len(self.others)])
                self.others.append(other)
                other.start()
                other.join(0.03)  # it has to wait
            return found

        return reading

    def ended(self) -> int:
        """Wait for all that was begun; return how often that was."""
        for other in self.others:
            other.join()
        return len(self.others)


@pytest.mark.parametrize("name", [n for n in LEARNING if not n.startswith("Conformal")])
def test_no_column_comes_between_reading_events_and_using_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, plain = of_river(name), of_river(name)
    for x, y in events(0, 16):
        model.learn_one(x, label(model, y))
        plain.learn_one({"a": x["a"], "b": x["b"]}, label(model, y))
    y = label(model, 1.0)
    frame, series = pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.Series([y])
    uses: list[tuple[Any, Callable[[], Any], int]] = [
        (model, lambda: answers_of(model, {"a": 1.0, "b": 2.0}), 0),
        (model, lambda: model.learn_one({"a": 1.0}, y), 1),
        (plain, lambda: plain.learn_many(frame, series), 1),
    ]
    for one, use, events_learned in uses:
        before = learned_by(one)
        with monkeypatch.context() as patch:
            disturbed = Disturbed(patch, lambda k, one=one: one.learn_one({f"new {k}": 1.0}, y))
            use()
            begun = disturbed.ended()
        assert begun
        assert learned_by(one) - before == begun + events_learned


def test_rows_of_a_model_are_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(MultiKernel(task="regression", external_experts=[]))
    with model.lock:
        model.learner.learn_one(model.row({"a": 1.0, "b": 2.0}, [1.0]), 1.0)
    disturbed = Disturbed(monkeypatch, lambda _: model.rows([{"a": 8.0, "b": 8.0}]))
    assert model.rows([{"a": 1.0, "b": 2.0}]).tolist() == [[1.0, 2.0]]
    assert disturbed.ended() == 2


def learned_by(model: Any) -> int:
    if isinstance(model, MMDDrift):
        return int(model._events.test.n_events)
    wrapped = getattr(model, "_wrapped_model", model)
    return int(wrapped._model.learner.n_events)


@pytest.mark.parametrize("name", river.__all__)
def test_no_event_of_threads_that_learn_is_lost(name: str) -> None:
    model, n = of_river(name), 25
    teaching = [threading.Event() for _ in range(4)]

    def teach(k: int) -> None:
        try:
            coming = [({**x, f"of {k}": 1.0}, label(model, y)) for x, y in events(k, n)]
            for first in range(0, n, 5):
                some = coming[first : first + 5]
                if k % 2 and hasattr(model, "learn_many"):
                    xs, ys = zip(*some, strict=True)
                    model.learn_many(pd.DataFrame(xs), pd.Series(ys, name="y"))
                    continue
                for x, y in some:
                    model.update_one(x) if isinstance(model, MMDDrift) else model.learn_one(x, y)
        finally:
            teaching[k].set()

    def copies() -> None:
        while not all(one.is_set() for one in teaching):
            again = pickle.loads(pickle.dumps(model))
            twin = copy.deepcopy(model)
            assert learned_by(again) <= learned_by(twin) <= learned_by(model)
            if not isinstance(model, MMDDrift):
                again.learn_one(*events(9, 1)[0][:1], label(model, 1.0))
            model.clone()

    together(*(lambda k=k: teach(k) for k in range(4)), copies)  # type: ignore[misc]
    assert learned_by(model) == 4 * n


class Alone:
    """A model of River that two threads must not use at once."""

    def __init__(self) -> None:
        self.used = 0

    def _use(self) -> None:
        assert not self.used, "another thread is here"
        self.used += 1
        time.sleep(0.001)
        self.used -= 1

    def __getstate__(self) -> dict[str, Any]:
        self._use()
        return {"used": 0}

    def learn_one(self, x: Any, y: Any) -> None:
        self._use()

    def predict_one(self, x: Any) -> Any:
        self._use()
        return 1.0

    def predict_proba_one(self, x: Any) -> Any:
        self._use()
        return {"p": 0.25, "n": 0.75}


class AloneRegressor(Alone, base.Regressor):
    pass


class AloneClassifier(Alone, base.Classifier):  # type: ignore[misc]
    pass


@pytest.mark.parametrize(
    "made",
    [lambda: ConformalRegressor(AloneRegressor()), lambda: ConformalClassifier(AloneClassifier())],
)
def test_a_wrapper_uses_its_model_in_one_thread_at_a_time(made: Any) -> None:
    model, y = made(), 1.0 if isinstance(made(), ConformalRegressor) else "p"
    model.learn_one({}, y)
    asks = [getattr(model, name) for name in dir(model) if name.startswith("predict")]
    uses = [lambda ask=ask: ask({}) for ask in asks]
    uses += [lambda: model.learn_one({}, y), lambda: pickle.dumps(model), lambda: model.clone()]
    together(*((lambda use=use: [use() for _ in range(15)]) for use in uses * 2))


# scikit-learn

POINTS = np.random.default_rng(0).normal(size=(160, 3))
CLASSES = np.where(POINTS[:, 0] * POINTS[:, 1] > 0, "p", "n")


def targets(model: Any) -> Any:
    return CLASSES if is_classifier(model) else POINTS[:, 0] - POINTS[:, 1]


def said_by(model: Any, X: Any) -> dict[str, Any]:
    """Return all that an estimator of scikit-learn has to say of events."""
    names = ("decision_function", "predict", "transform", "feature_importances_")
    found: dict[str, Any] = {}
    for name in (*names, "predict_proba", "predict_interval", "get_feature_names_out"):
        ask = getattr(model, name, None)
        if ask is not None:
            given = () if name.startswith("get") else (X,)
            found[name] = np.asarray(ask(*given) if callable(ask) else ask).tolist()
    return found


@pytest.mark.parametrize("name", sklearn.__all__)
def test_an_estimator_answers_each_thread_for_its_rows(name: str) -> None:
    model = of_sklearn(name).fit(POINTS, targets(of_sklearn(name)))
    asked = [POINTS[k : k + 1 + k % 2] for k in range(THREADS)]
    expected = [said_by(model, X) for X in asked]

    def ask(k: int) -> None:
        for _ in range(4):
            assert said_by(model, asked[k]) == expected[k]

    together(*(lambda k=k: ask(k) for k in range(THREADS)))  # type: ignore[misc]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", sklearn.__all__)
def test_a_fit_takes_effect_all_at_once(name: str) -> None:
    model = of_sklearn(name)
    y = targets(model)
    other = np.char.add(y, "!") if is_classifier(model) else y + 100.0
    ways = ((POINTS, y), (POINTS[:90], other[:90]))
    known = [said_by(clone(model).fit(*way), POINTS[:2]) for way in ways]
    model.fit(*ways[0])
    done = threading.Event()

    def fit() -> None:
        for k in (1, 0, 1):
            model.fit(*ways[k])
        with pytest.raises(ValueError, match="infinity"):  # which leaves it as it is
            model.fit(np.full_like(POINTS, np.inf), y)
        done.set()

    def ask() -> None:
        while not done.is_set():
            said = said_by(model, POINTS[:2])
            assert all(said[method] in [one[method] for one in known] for method in said)
            said = said_by(pickle.loads(pickle.dumps(model)), POINTS[:2])
            assert said in known
            assert said_by(copy.deepcopy(model), POINTS[:2]) in known

    together(fit, ask, ask)
    assert said_by(model, POINTS[:2]) == known[1]


@pytest.mark.parametrize(
    "name", [n for n in sklearn.__all__ if hasattr(of_sklearn(n), "partial_fit")]
)
def test_partial_fits_of_threads_all_count(name: str) -> None:
    model, n, parts = of_sklearn(name), 5, 4
    first = {"classes": ["down", "up"]} if is_classifier(model) else {}
    teaching = [threading.Event() for _ in range(4)]

    def frame(k: int, part: int) -> Any:
        rng = np.random.default_rng(10 * k + part)
        return pd.DataFrame({"a": rng.normal(size=n), "t": [f"{k}-{part}-{i}" for i in range(n)]})

    def teach(k: int) -> None:
        try:
            for part in range(parts):
                X = frame(k, part)
                y = np.where(X["a"] > 0, "up", "down") if first else X["a"].to_numpy()
                model.partial_fit(X, y, **first)
                model.predict(X)
        finally:
            teaching[k].set()

    def copies() -> None:
        while not all(one.is_set() for one in teaching):
            again = pickle.loads(pickle.dumps(copy.deepcopy(model)))
            if hasattr(again, "learner_"):
                assert len(again.predict(frame(0, 0))) == n

    together(*(lambda k=k: teach(k) for k in range(4)), copies)  # type: ignore[misc]
    assert model.learner_.n_events == 4 * parts * n
    assert len(model.learner_.columns) == 1 + 4 * parts * n


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_importances_are_of_one_state(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def frame(*texts: str, **more: Any) -> Any:
        return pd.DataFrame({"t": texts, "a": np.arange(len(texts)), **more})

    model = of_sklearn("FeatureMachineRegressor").fit(frame("x", "y", "z"), [1.0, 2.0, 3.0])
    shares: Any = FeatureMachine.column_shares
    more = frame("u", "v", b=1.0) if way == "fit" else frame("u", "v")
    other = threading.Thread(target=getattr(model, way), args=(more, [1.0, 2.0]))

    def disturbed(learner: Any) -> Any:
        found = shares.fget(learner)
        other.start()
        other.join(10.0 if way == "fit" else 0.1)  # which waits
        return found

    monkeypatch.setattr(FeatureMachine, "column_shares", property(disturbed))
    assert model.feature_importances_ == pytest.approx([0.75, 0.25])
    other.join()
    monkeypatch.undo()
    assert model.feature_importances_.shape == ((3,) if way == "fit" else (2,))


@pytest.mark.parametrize("name", ["MekaClassifier", "DCPredClassifier"])
def test_classes_are_of_the_fit_that_predicts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = of_sklearn(name).fit(X, np.where(X[:, 0] > 0, "a", "b"))
    outputs: Any = type(model)._predict

    def disturbed(self: Any, points: Any) -> Any:
        found = outputs(self, points)
        model.fit(X, np.where(X[:, 0] > 0, "c", "d"))
        return found

    monkeypatch.setattr(type(model), "_predict", disturbed)
    assert set(model.predict(X)) <= {"a", "b"}
    assert set(model.classes_) == {"c", "d"}
