"""What is made in the background has the same bits beside threads that use BLAS, and limit it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from streamk.backends.threads import one_blas_thread
from streamk.kernels import Matern
from streamk.learners import MultiKernel
from streamk.learners.renewal import REPLACEMENTS, begun
from streamk.learners.rfm.solving import MetricRecipe, TrainingEvents


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Have BLAS take two threads where there is one core, too, but for those that limit it."""
    with one_blas_thread():  # which loads all libraries
        pass
    found = ThreadpoolController()
    before = found.info()
    in_thread_that_ends(lambda: found.limit(limits=2, user_api="blas"))
    yield
    for one, known in zip(found.lib_controllers, before, strict=True):
        in_thread_that_ends(partial(one.set_num_threads, known["num_threads"]))


def in_thread_that_ends(work: Callable[[], object]) -> None:
    """Do work in a thread of its own: for threadpoolctl no thread has set limits then."""
    with ThreadPoolExecutor(1) as one:
        one.submit(work).result()


def blas_threads() -> set[int]:
    return {one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()}


@contextmanager
def beside_others() -> Iterator[None]:
    """Have threads that multiply, and enter and leave the limit, from before to after the work."""
    ended = threading.Event()
    A = np.ones((600, 600), np.float32)

    def multiply() -> None:
        while not ended.is_set():
            A @ A

    def limit() -> None:
        while not ended.is_set():
            with one_blas_thread():
                A[:100] @ A[:, :100]

    with one_blas_thread():  # the first thread that does, and that there still is
        pass
    others = [threading.Thread(target=work) for work in (multiply, limit)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        ended.set()
        for other in others:
            other.join()


def letters(n: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return events like the letters of UCI: 16 columns of whole numbers to 15, and 26 classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(26, size=n)
    middles = rng.uniform(2.0, 13.0, size=(26, 3, 16))[y, rng.integers(3, size=n)]
    return np.clip(np.rint(middles + 1.5 * rng.normal(size=(n, 16))), 0.0, 15.0), y


def searched(n: int, metric: str) -> dict[str, NDArray[np.generic]]:
    """Return what a search in the background makes of some events."""
    X, y = letters(n)
    targets = np.where(y[:, None] == np.arange(26), 1.0, -1.0)
    beginning = TrainingEvents(X, y.astype(float), targets, range(26), "classification", seed=0)
    recipe = MetricRecipe(Matern(nu=0.5, bandwidth=6.0), metric, 2, 8_192, 100)
    return begun(REPLACEMENTS, lambda: beginning.fit(recipe)).result().state().arrays


def same(a: dict[str, NDArray[np.generic]], b: dict[str, NDArray[np.generic]]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_the_limit_holds_whichever_thread_was_the_first_and_is_lifted_by_the_last() -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for first, second in ((one, other), (other, one)):
            a, b = one_blas_thread(), one_blas_thread()
            first.submit(a.__enter__).result()
            assert blas_threads() == {1}
            second.submit(b.__enter__).result()
            first.submit(a.__exit__, None, None, None).result()
            assert blas_threads() == {1}
            second.submit(b.__exit__, None, None, None).result()
            assert blas_threads() == {2}


def test_a_limit_that_is_over_leaves_other_threads_free_to_set_their_own() -> None:
    def limited() -> None:
        with one_blas_thread():
            pass

    with ThreadPoolExecutor(1) as one:  # which is still there
        one.submit(limited).result()
        with ThreadpoolController().limit(limits=1, user_api="blas"):
            assert blas_threads() == {1}


@pytest.mark.parametrize("metric", ["diagonal", "full"])
def test_a_search_has_the_same_bits_beside_threads_that_use_blas(metric: str) -> None:
    alone = searched(2_600, metric)
    with beside_others():
        assert same(searched(2_600, metric), alone)


@pytest.mark.nightly
@pytest.mark.parametrize("metric", ["diagonal", "full"])
def test_longer_searches_have_the_same_bits_beside_threads_that_use_blas(metric: str) -> None:
    alone = searched(9_000, metric)
    for _ in range(3):
        with beside_others():
            assert same(searched(9_000, metric), alone)


@pytest.mark.nightly
def test_a_default_model_has_the_same_bits_beside_threads_that_use_blas() -> None:
    X, y = letters(9_000)

    def learned() -> NDArray[np.float64]:
        model, found = MultiKernel(seed=0), np.zeros((len(X), 26))
        model.learn_many(X[:500], y[:500].tolist())
        for at in range(500, len(X), 500):
            some = slice(at, at + 500)
            asked = model.predict_then_learn_many(X[some], y[some].tolist())
            if asked.probabilities is not None:
                found[some] = asked.probabilities
        return found

    alone = learned()
    with beside_others():
        assert np.array_equal(learned(), alone)
    assert alone[500:].any(axis=1).all()
