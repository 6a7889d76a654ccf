"""One event at a time: what batches give, bit for bit, with nothing allocated on the way."""

import contextlib
import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from streamk import kernels
from streamk.backends import Dense, select
from streamk.errors import InvalidInput
from streamk.learners import Constant, DoublyStochastic

ROOT = Path(__file__).parents[2]


def model(**options):
    options = {
        "kernel": kernels.Gaussian(bandwidth=0.8),
        "seed": 5,
        "step": Constant(0.3),
        "regularization": 0.01,
        "batch_size": 1,
        "block_size": 100,
        "max_features": 350,
        **options,
    }
    return DoublyStochastic(options.pop("kernel"), **options)


def stream(n, d, dtype, classes=("a", "b")):
    X = np.random.default_rng(2).uniform(-1.0, 1.0, (n, d)).astype(dtype)
    return X, [
        classes[i] for i in (X[:, 0] > 0).astype(int) + (X[:, -1] > 0.9) * (len(classes) - 2)
    ]


# --- what must still be refused, and taken --------------------------------------------------


def message(function, *arguments):
    with pytest.raises(InvalidInput) as caught:
        function(*arguments)
    return str(caught.value)


def test_arrays_of_every_kind_are_taken():
    X, y = stream(20, 6, np.float32)
    learner = model()
    for x, label in zip(X, y, strict=True):
        learner.learn_one(x, label)
    x, expected = X[3].copy(), learner.decision_many(X[3:4])[0]
    locked = x.copy()
    locked.flags.writeable = False
    apart = np.repeat(x, 2)[::2]
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32)
    swapped = x.astype(x.dtype.newbyteorder())
    for other in (x.tolist(), x.astype(np.float64), locked, apart, unaligned, swapped):
        np.testing.assert_array_equal(learner.decision_one(other), expected)
    with pytest.raises(InvalidInput, match="5 columns and the model has 6"):
        learner.decision_one(x[:5])
    with pytest.raises(InvalidInput, match=r"shape \(columns,\)"):
        learner.decision_one(x[None])


def test_a_step_that_overflows_is_refused():
    learner = model(loss="squared", step=Constant(1e30), regularization=0.0)
    X, _ = stream(60, 3, np.float32)
    for x in X:
        before, steps = learner.coefficients, learner.n_steps
        with contextlib.suppress(InvalidInput):
            learner.learn_one(x, 1e15)
        if learner.n_steps == steps:
            break
    assert "overflowed at step" in message(learner.learn_one, x, 1e15)
    np.testing.assert_array_equal(learner.coefficients, before)


# --- what it costs --------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["iid", "hadamard"])
def test_a_growing_model_prepares_nothing_until_it_pays(sampler):
    learner = model(sampler=sampler, max_features=1 << 17, block_size=64)
    X, y = stream(60, 5, np.float32)
    for x, label in zip(X, y, strict=True):
        for _ in range(2):
            learner.decision_one(x)
        learner.learn_one(x, label)
        alone = learner._function._alone
        assert alone is None or alone.single is None
    for _ in range(10):
        learner.decision_one(X[0])
    assert learner._function._alone.single is not None


SCRIPT = """
    import tracemalloc
    import numpy as np
    from numba.core.runtime import rtsys
    from streamk import backends, kernels
    from streamk.learners import DoublyStochastic

    learner = DoublyStochastic(
        kernels.Gaussian(), loss="squared", sampler="{sampler}", batch_size=1, block_size=2048,
        max_features=2048,
    )
    x = np.linspace(-1.0, 1.0, 54, dtype=np.float32)
    for _ in range(3):
        learner.learn_one(x, 0.5)
        learner.decision_one(x)
    single, F = learner._function._alone.single, np.empty(1)

    def events(n):
        for _ in range(n):
            assert single.predict(x, 1.0, F)
            assert single.step(x, 0.5, (0, 2048), 1.0, 1.0, 1e-6, F)

    events(2)
    before = rtsys.get_allocation_stats()
    events(1000)
    # numba itself counts a handle for each array that is handed over.
    alloc, free, *others = np.subtract(rtsys.get_allocation_stats(), before).tolist()
    assert alloc == free == others[0] == others[1] == 2 * 2000, (alloc, free, others)
    tracemalloc.start()
    events(2)
    tracemalloc.reset_peak()
    start, _ = tracemalloc.get_traced_memory()
    events(1000)
    end, peak = tracemalloc.get_traced_memory()
    assert end - start < 256, end - start
    assert peak - start < 1024, peak - start
"""


@pytest.mark.parametrize("sampler", ["iid", "hadamard"])
def test_nothing_is_allocated_for_an_event(sampler):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT.format(sampler=sampler))],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "NUMBA_NRT_STATS": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_either_function_keeps_what_it_points_to():
    """Freed, the arrays behind the address would be someone else's."""
    X = np.random.default_rng(0).normal(size=(1, 5)).astype(np.float32)
    step = prepared_step(X.shape[1])
    gc.collect()
    rubbish = [np.full(n, np.nan, np.float32) for n in (16, 64, 256, 1024) for _ in range(50)]
    F = np.empty(1)
    assert step(X[0], 1.0, (0, 64), 1.0, 1.0, 0.01, F)
    assert np.isfinite(F).all()
    assert len(rubbish) == 200


def prepared_step(d):
    """A step of a `single` that is gone itself."""
    backend = select()
    W, b = np.empty((1, d, 64), np.float32), np.empty((1, 64), np.float32)
    backend.frequencies(1, 0, 0, 1.0, np.arange(d, dtype=np.uint64), 0, W, b)
    A, squares = np.zeros((1, 1, 64), np.float32), np.empty((0, 1, 64), np.float32)
    return backend.single(Dense(W, b), A, squares, True, False, (0, 0.0, False)).step
