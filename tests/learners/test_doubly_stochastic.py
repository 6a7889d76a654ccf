"""The learner against Algorithms 1 and 2 as printed, and against itself under every option that
must change nothing: the cache, threads, batches of predicting, a stop and restart."""

import math
import os
import signal
from functools import partial

import numpy as np
import pytest
from reference import naive
from state_kit import assert_same

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.learners import AdaGrad, Constant, DoublyStochastic, InverseTime
from streamk.losses import loss as make_loss
from streamk.state import State

STEPS = {
    "inverse_time": (InverseTime(theta=5.0, offset=0), ("inverse_time", 5.0)),
    "constant": (Constant(gamma=0.3), ("constant", 0.3)),
    "adagrad": (AdaGrad(gamma=0.2), ("adagrad", 0.2)),
}
CLASSIFICATION = ["squared", "hinge", "squared_hinge", "logistic", "softmax"]
REGRESSION = {
    "squared": {},
    "huber": {"delta": 0.4},
    "epsilon_insensitive": {"epsilon": 0.1},
    "quantile": {"q": 0.7},
}
TASKS = [(loss, task) for loss in CLASSIFICATION for task in ("two", "third comes late")]
TASKS += [(loss, "numbers") for loss in REGRESSION]
LABELS = np.array(["no", "yes", "maybe"], dtype=object)
NU = 0.01


def stream(task, n, d=3, seed=0):
    """Events and labels that a Gaussian kernel can learn: class numbers, or floats."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, d))
    g = np.sin(2.0 * X[:, 0]) + X[:, -1] ** 2 - 0.8 + 0.3 * rng.normal(size=n)
    if task == "numbers":
        return X, g
    y = (g > 0).astype(int)
    y[:2] = 0, 1  # numbers follow the order of arrival
    if task == "third comes late":
        late = np.arange(n) > n // 3
        y[late & (X[:, 0] * X[:, -1] > 0.5)] = 2
    return X, y


def model(loss="logistic", task="two", **options):
    """A small learner in float64 that the oracle can follow."""
    parameters = REGRESSION.get(loss, {}) if task == "numbers" else {}
    options = {
        "seed": 11,
        "step": Constant(0.3),
        "regularization": NU,
        "batch_size": 2,
        "block_size": 3,
        "dtype": "float64",
        "task": "regression" if task == "numbers" else "classification",
        **options,
    }
    kernel = options.pop("kernel", kernels.Gaussian(bandwidth=0.7))
    return DoublyStochastic(kernel, loss=make_loss(loss, **parameters), **options)


def labels_of(task, y):
    return y if task == "numbers" else LABELS[y]


# --- against the oracle ---------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("growing", [True, False], ids=["growing", "revisiting"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("loss", "task"), TASKS)
def test_coefficients_are_the_oracle_s(loss, task, step, growing):
    ours_step, naive_step = STEPS[step]
    steps, batch = 250, 2
    sizes = {"block_size": 3} if growing else {"block_size": 7, "max_features": 40}
    X, y = stream(task, steps * batch)
    oracle = naive.DoublyStochastic(
        naive.Kernel("gaussian", 0.7), loss, 11, naive_step, nu=NU, columns=range(3),
        classification=task != "numbers", **sizes,
        **(REGRESSION[loss] if task == "numbers" else {}),
    )  # fmt: skip
    learner = model(loss, task, step=ours_step, batch_size=batch, **sizes)
    for t in range(steps):
        some = slice(t * batch, (t + 1) * batch)
        oracle.learn(X[some], y[some])
        learner.learn_many(X[some], labels_of(task, y[some]))

    assert oracle.nearest_kink > 1e-6, "choose other data: a kink decides by rounding"
    assert learner.coefficients.shape == oracle.alpha.shape
    assert learner.n_features == (750 if growing else 40)
    assert learner.n_events == steps * batch
    assert np.abs(oracle.alpha).max() > 1e-3
    np.testing.assert_allclose(learner.coefficients, oracle.alpha, rtol=1e-5, atol=1e-8)
    expected = [oracle.decision(x) for x in X[:20]]
    np.testing.assert_allclose(learner.decision_many(X[:20]), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("batch", "block"), [(1, 64), (5, 200), (32, 1)])
def test_one_call_is_consecutive_mini_batches(batch, block):
    """Whatever comes in one call, a third class in its middle included."""
    X, y = stream("third comes late", 180)
    oracle = naive.DoublyStochastic(
        naive.Kernel("gaussian", 0.7), "hinge", 11, ("constant", 0.3), nu=NU, columns=range(3),
        block_size=block,
    )  # fmt: skip
    learner = model("hinge", batch_size=batch, block_size=block, classes=["no"])
    learner.learn_many(X, LABELS[y])
    for first in range(0, 180, batch):
        oracle.learn(X[first : first + batch], y[first : first + batch])
    learner.finish()  # the oracle has taken the step of the last events, fewer than a mini-batch
    assert learner.n_gathered == 0
    assert oracle.nearest_kink > 1e-6
    np.testing.assert_allclose(learner.coefficients, oracle.alpha, rtol=1e-7, atol=1e-9)


# --- the lazy scale -------------------------------------------------------------------------


def follow(steps, *, theta_or_gamma, rule, nu, dtype="float64", loss="logistic", **sizes):
    make = {"inverse_time": partial(InverseTime, offset=0), "constant": Constant}[rule]
    X, y = stream("two", steps)
    oracle = naive.DoublyStochastic(
        naive.Kernel("gaussian", 0.7), loss, 11, (rule, theta_or_gamma), nu=nu, columns=range(3),
        **sizes,
    )  # fmt: skip
    learner = model(
        loss, step=make(theta_or_gamma), regularization=nu, batch_size=1, dtype=dtype, **sizes
    )
    learner.learn_many(X[:1], LABELS[[0]])
    oracle.learn(X[:1], [0])
    for t in range(1, steps):
        yield learner, oracle
        learner.learn_many(X[t : t + 1], LABELS[y[t : t + 1]])
        oracle.learn(X[t : t + 1], y[t : t + 1])
    yield learner, oracle


@pytest.mark.parametrize("sizes", [{}, {"max_features": 12}], ids=["growing", "revisiting"])
@pytest.mark.parametrize(("theta", "nu"), [(1.0, 1.0), (3.0, 1.0), (8.0, 0.5), (10.0, 0.3)])
def test_a_decay_factor_of_zero_clears(theta, nu, sizes):
    """With theta nu a whole number the factor at t = theta nu is 0, and negative before it."""
    cleared = round(theta * nu)
    for learner, oracle in follow(
        30, rule="inverse_time", theta_or_gamma=theta, nu=nu, block_size=3, **sizes
    ):
        size = np.abs(oracle.alpha).max()
        np.testing.assert_allclose(
            learner.coefficients, oracle.alpha, rtol=1e-9, atol=1e-11 * max(1.0, size)
        )
        if oracle.t == cleared and not sizes:
            assert np.abs(learner.coefficients[:-3]).max(initial=0.0) < 1e-12
            assert np.abs(learner.coefficients[-3:]).max() > 0.0
        assert np.isfinite(learner.coefficients).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("nu", [1.0, 1.9, 2.1, 0.02])
def test_a_scale_that_becomes_tiny_is_renormalised(nu, dtype):
    """Constant gamma 1: factors 0, -0.9, -1.1 and .98, hundreds of times."""
    for count, (learner, oracle) in enumerate(
        follow(
            400, rule="constant", theta_or_gamma=1.0, nu=nu, dtype=dtype, block_size=2,
            max_features=50,
        )
    ):  # fmt: skip
        if count % 20 == 0:
            size = max(1.0, np.abs(oracle.alpha).max())
            atol = (1e-9 if dtype == "float64" else 1e-4) * size
            np.testing.assert_allclose(learner.coefficients, oracle.alpha, rtol=0, atol=atol)
            scale = abs(learner.state().header["scale"])
            assert 2.0**-40 <= scale <= 2.0**40


def test_a_scale_halved_each_step_loses_nothing():
    seen = set()
    pair = follow(200, rule="constant", theta_or_gamma=0.5, nu=1.0, dtype="float32", block_size=1)
    for learner, oracle in pair:  # noqa: B007 (the last of both is compared below)
        seen.add(learner.state().header["scale"])
    # The last features count, not the 150 before them: in float32 2^-150 is zero, not an error.
    np.testing.assert_allclose(learner.coefficients, oracle.alpha, rtol=2e-4, atol=1e-7)
    assert min(seen) <= 2.0**-39
    assert min(seen) > 2.0**-41


# --- what must change nothing ---------------------------------------------------------------


def grown(task="third comes late", loss="softmax", n=600, **options):
    X, y = stream(task, n, d=5)
    options = {"dtype": "float32", "batch_size": 32, "block_size": 100, **options}
    learner = model(loss, task, **options)
    learner.learn_many(X, labels_of(task, y))
    return learner


@pytest.mark.parametrize("kernel", [kernels.Gaussian(), kernels.Linear()])
@pytest.mark.parametrize("sizes", [{}, {"max_features": 700}], ids=["growing", "revisiting"])
def test_the_cache_changes_nothing(sizes, kernel):
    kept = grown(kernel=kernel, **sizes)
    chunk, least = 64 * (5 + 1) * 4, grown(kernel=kernel, cache_bytes=0, **sizes).nbytes
    X, _ = stream("two", 40, d=5, seed=9)
    for cache_bytes in (0, chunk, 3 * chunk + 7, 20 * chunk):
        other = grown(kernel=kernel, cache_bytes=cache_bytes, **sizes)
        np.testing.assert_array_equal(other.coefficients, kept.coefficients)
        np.testing.assert_array_equal(other.decision_many(X), kept.decision_many(X))
        assert other.nbytes - least <= cache_bytes


@pytest.mark.parametrize(
    ("loss", "task", "step"),
    [
        *((one, "third comes late", "constant") for one in ("hinge", "softmax", "squared")),
        ("quantile", "numbers", "constant"),
        ("softmax", "two", "adagrad"),
        ("huber", "numbers", "inverse_time"),
    ],
)
def test_a_step_on_kept_frequencies_is_a_step_on_new_ones(loss, task, step):
    """The short way of a small step and the long way round the same, whatever the loss."""
    X, y = stream(task, 240)
    options = {"dtype": "float32", "batch_size": 8, "step": STEPS[step][0]}
    for sizes in ({"block_size": 50}, {"block_size": 100, "max_features": 250}):
        kept = model(loss, task, **options, **sizes)
        new = model(loss, task, cache_bytes=0, **options, **sizes)
        for learner in (kept, new):
            learner.learn_many(X, labels_of(task, y))
        assert_same(kept, new, but="cache_bytes")


# --- state and merging ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"step": {"step": "sideways"}}, {"step": {}}, {"kernel": {"kernel": "unknown"}}],
    ids=str,
)
def test_a_state_of_a_step_or_kernel_that_there_is_not_is_refused(change):
    state = model(step=AdaGrad(0.1)).state()
    with pytest.raises(StateError):
        DoublyStochastic.from_state(State({**state.header, **change}, state.arrays))


def weights(mine, others):
    return mine / (mine + others), others / (mine + others)


@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize(
    ("mine_sees", "other_sees"),
    [([0, 1], [1, 0]), ([0, 1], [0, 1, 2]), ([2, 1, 0], [0, 1]), ([1, 2, 0], [0, 2, 1])],
)
def test_merging_matches_classes_by_their_labels(loss, mine_sees, other_sees):
    """In whatever order each met them, the merged model decides like the mean of the two."""
    X, y = stream("third comes late", 600)

    def taught(sees, some):
        learner = model(loss)
        keep = np.isin(y[some], sees)
        learner.learn_many(X[some][:0], [])
        first = [np.flatnonzero(y == c)[-1] for c in sees]
        learner.learn_many(X[first], LABELS[y[first]])
        learner.learn_many(X[some][keep], LABELS[y[some][keep]])
        learner.finish()
        assert learner.classes == tuple(LABELS[sees])
        return learner

    def by_label(learner, order):
        """Outputs, one a class in this order, with the convention that a third class splits f."""
        F = learner.decision_many(X[:30])
        if F.shape[1] == 1:
            F = make_loss(loss).split_binary(F[:, 0])
        columns = dict(zip(learner.classes, F.T, strict=True))
        return np.column_stack([columns.get(label, np.zeros(30)) for label in order])

    mine, others = taught(mine_sees, slice(0, 300)), taught(other_sees, slice(300, 600))
    order = list(dict.fromkeys([*mine.classes, *others.classes]))
    v, w = weights(mine.n_events, others.n_events)
    expected = v * by_label(mine, order) + w * by_label(others, order)
    mine.merge(others)
    assert list(mine.classes) == order
    np.testing.assert_allclose(by_label(mine, order), expected, atol=1e-12)


def test_merging_takes_the_mean_of_squared_gradients_too():
    X, y = stream("two", 300)
    mine, others = (model(step=AdaGrad(0.2), max_features=30) for _ in range(2))
    mine.learn_many(X[:200], LABELS[y[:200]])
    others.learn_many(X[200:], LABELS[y[200:]])
    a, b = (learner.state().arrays["squares"] for learner in (mine, others))
    v, w = weights(200, 100)
    mine.merge(others)
    np.testing.assert_allclose(mine.state().arrays["squares"], v * a + w * b, rtol=1e-12)


def test_learners_that_differ_only_in_memory_merge():
    model(cache_bytes=0, threads=1).merge(model(cache_bytes=99, threads=2))


# --- memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "outputs"), [("numbers", 1), ("third comes late", 3)])
def test_memory_is_four_bytes_for_a_feature_and_output(task, outputs):
    """At d=784 and without a cache: nothing of the frequencies is kept."""
    rng = np.random.default_rng(0)
    learner = DoublyStochastic(
        kernels.Gaussian(bandwidth=20.0), loss="squared", cache_bytes=0, block_size=500,
        batch_size=3, max_features=2700, dtype="float32",
        task="regression" if task == "numbers" else "classification",
    )  # fmt: skip
    for _ in range(8):
        X = rng.normal(size=(3, 784))
        learner.learn_many(X, [0.0, 1.0, 0.5] if task == "numbers" else ["a", "b", "c"])
        learner.predict_many(X)
        counted = 4 * learner.n_features * outputs
        assert learner.state().nbytes <= counted + 4 * 64 * outputs
        assert learner.nbytes <= counted + 2**14 * outputs + 4096
    assert learner.n_features == 2700


# --- before learning, and errors ------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "hing"}, ["hing", "hinge", "logistic"]),
        ({"loss": "quantile", "task": "classification"}, ["quantile", "classification"]),
        ({"loss": "softmax", "task": "regression"}, ["softmax", "regression"]),
        ({"backend": "fortran"}, ["fortran", "cupy"]),
        ({"loss": "huber", "classes": ["a"]}, ["classes", "classification"]),
        ({"step": 0.5}, ["step=0.5", "Step"]),
    ],
)
def test_a_wrong_option_is_named_with_the_fix(options, words):
    with pytest.raises(InvalidInput) as error:
        DoublyStochastic(**{"kernel": kernels.Gaussian(), **options})
    for word in words:
        assert word in str(error.value)


def test_steps_must_be_positive():
    for value in (-1.0, math.nan, math.inf, "one", 0.0):
        for make in (InverseTime, Constant, AdaGrad):
            with pytest.raises(InvalidInput, match=str(value)):
                make(value)
        if value != 0.0:
            with pytest.raises(InvalidInput, match=f"offset={value!r} of InverseTime"):
                InverseTime(1.0, offset=value)


def test_the_offset_follows_from_block_batch_and_loss():
    sizes = {"batch_size": 4, "block_size": 8}
    assert model("squared", "numbers", step=InverseTime(6.0), **sizes).step.offset == 6.0 + 36 / 32
    assert model("softmax", step=InverseTime(6.0), **sizes).step.offset == 3.0 + 9 / 32
    assert model("hinge", step=InverseTime(6.0), **sizes).step.offset == 6.0 + 36 / 32
    given = model("squared", "numbers", step=InverseTime(6.0, offset=2.0))
    assert given.step == InverseTime(6.0, offset=2.0)
    assert DoublyStochastic.from_state(given.state()).step == given.step


def test_a_model_that_overflowed_while_growing_can_be_saved():
    learner = model("squared", "numbers", step=Constant(1e9), batch_size=1, block_size=64)
    X, y = stream("numbers", 200)
    with pytest.raises(InvalidInput, match=r"overflow.*(smaller step|scale)"):
        learner.learn_many(X, y)
    assert_same(DoublyStochastic.from_state(learner.state()), learner)


# From Python 3.12 on forking a process that has threads warns of just what this is about.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.usefixtures("many_threads")
def test_a_forked_process_predicts_too():
    learner = model("squared", "numbers", threads=2, block_size=4096, max_features=4096)
    X, y = stream("numbers", 2000)
    learner.learn_many(X[:500], y[:500])
    expected = learner.predict_many(X)  # in threads, which the fork does not take along
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(60)
            status = 0 if np.array_equal(learner.predict_many(X), expected) else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
