"""The learner against Algorithms 1 and 2 as printed, and against itself under every option that
must change nothing: the cache, threads, batches of predicting, a stop and restart."""

import math
import os
import signal
from functools import partial

import numpy as np
import pytest
from reference import naive
from state_kit import assert_same, through_json

from streamk import kernels
from streamk.errors import InvalidInput, NotLearned, StateError
from streamk.learners import AdaGrad, Constant, DoublyStochastic, InverseTime
from streamk.losses import loss as make_loss

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
    steps, batch = 500, 2
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
    assert learner.n_features == (1500 if growing else 40)
    assert learner.n_events == steps * batch
    assert np.abs(oracle.alpha).max() > 1e-3
    np.testing.assert_allclose(learner.coefficients, oracle.alpha, rtol=1e-5, atol=1e-8)
    expected = [oracle.decision(x) for x in X[:20]]
    np.testing.assert_allclose(learner.decision_many(X[:20]), expected, rtol=1e-5, atol=1e-7)


KERNELS = [
    (kernels.Laplacian(bandwidth=2.0), naive.Kernel("laplacian", 2.0)),
    (kernels.Matern(nu=0.5, bandwidth=1.5), naive.Kernel("matern", 1.5, 0.5)),
    (kernels.Matern(nu=1.5, bandwidth=1.5), naive.Kernel("matern", 1.5, 1.5)),
    (kernels.Matern(nu=2.5, bandwidth=1.5), naive.Kernel("matern", 1.5, 2.5)),
    (
        kernels.RationalQuadratic(alpha=2.0, bandwidth=1.5),
        naive.Kernel("rational_quadratic", 1.5, 2.0),
    ),
    (kernels.Cauchy(bandwidth=1.5), naive.Kernel("cauchy", 1.5)),
    (kernels.Linear(), naive.Kernel("linear")),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("ours", "theirs", "sampler"),
    [(*pair, "iid") for pair in KERNELS]
    + [(*pair, "hadamard") for pair in KERNELS if pair[0].isotropic],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_kernel_and_sampler(ours, theirs, sampler):
    X, y = stream("third comes late", 240)
    columns = ["x", "größe", 5]
    oracle = naive.DoublyStochastic(
        theirs, "softmax", 2**63 + 11, ("constant", 0.2), nu=NU, columns=columns, block_size=70,
        max_features=200, widths=None if sampler == "iid" else (64,),
    )  # fmt: skip
    learner = model(
        "softmax", kernel=ours, columns=columns, step=Constant(0.2), batch_size=8,
        seed=2**63 + 11, block_size=70, max_features=200, sampler=sampler,
    )  # fmt: skip
    for first in range(0, 240, 8):
        oracle.learn(X[first : first + 8], y[first : first + 8])
        learner.learn_many(X[first : first + 8], LABELS[y[first : first + 8]])
    np.testing.assert_allclose(learner.coefficients, oracle.alpha, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("batch", [1, 5, 32])
@pytest.mark.parametrize("block", [1, 64, 200])
def test_one_call_is_consecutive_mini_batches(batch, block):
    """Whatever comes in one call, a third class in its middle included."""
    X, y = stream("third comes late", 180)
    oracle = naive.DoublyStochastic(
        naive.Kernel("gaussian", 0.7), "hinge", 11, ("constant", 0.3), nu=NU, columns=range(3),
        block_size=block,
    )  # fmt: skip
    whole, parts = (
        model("hinge", batch_size=batch, block_size=block, classes=["no"]) for _ in range(2)
    )
    whole.learn_many(X, LABELS[y])
    for first in range(0, 180, batch):
        some = slice(first, first + batch)
        oracle.learn(X[some], y[some])
        parts.learn_many(X[some], LABELS[y[some]])
    assert_same(whole, parts)
    parts.finish()  # the oracle has taken the step of the last events, fewer than a mini-batch
    assert parts.n_gathered == 0
    assert oracle.nearest_kink > 1e-6
    np.testing.assert_allclose(parts.coefficients, oracle.alpha, rtol=1e-7, atol=1e-9)


def test_the_plain_equations_by_hand():
    """Two steps written out: step 5 with l' at the old f, step 6 on what was there before."""
    x, z = [0.3, -0.2], [-1.0, 0.4]
    learner = model(
        "squared",
        "numbers",
        step=InverseTime(2.0, offset=0),
        regularization=0.25,
        batch_size=1,
        block_size=1,
    )
    k = naive.Kernel("gaussian", 0.7)
    first, second = (lambda p, i=i: naive.feature(k, 11, i, p, range(2)) for i in range(2))
    learner.learn_many([x], [1.5])
    alpha = [2.0 * 1.5 * first(x)]  # -gamma (f - y) phi with f = 0
    np.testing.assert_allclose(learner.coefficients[:, 0], alpha, rtol=1e-12)
    learner.learn_many([z], [-0.5])
    f = alpha[0] * first(z)
    alpha = [(1.0 - 1.0 * 0.25) * alpha[0], -1.0 * (f + 0.5) * second(z)]
    np.testing.assert_allclose(learner.coefficients[:, 0], alpha, rtol=1e-12)
    decision = alpha[0] * first(x) + alpha[1] * second(x)
    np.testing.assert_allclose(learner.decision_many([x]), [[decision]], rtol=1e-12)


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


def test_a_scale_that_swells_before_it_clears():
    """theta nu = 60: factors of -59, -29, ... multiply to 1e16 before t = 60 clears them all."""
    largest = 0.0
    for learner, oracle in follow(
        90, rule="inverse_time", theta_or_gamma=60.0, nu=1.0, block_size=2, loss="logistic"
    ):
        size = np.abs(oracle.alpha).max()
        largest = max(largest, size)
        np.testing.assert_allclose(
            learner.coefficients, oracle.alpha, rtol=1e-6, atol=1e-9 * max(1.0, size)
        )
    assert largest > 2.0**41


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


@pytest.mark.parametrize("kernel", [kernels.Gaussian(), kernels.Matern(nu=1.5), kernels.Linear()])
@pytest.mark.parametrize("sizes", [{}, {"max_features": 700}], ids=["growing", "revisiting"])
def test_the_cache_changes_nothing(sizes, kernel):
    kept = grown(kernel=kernel, **sizes)
    chunk = 64 * (5 + 1) * 4
    X, _ = stream("two", 40, d=5, seed=9)
    for cache_bytes in (0, 1, chunk, 3 * chunk + 7, 20 * chunk):
        other = grown(kernel=kernel, cache_bytes=cache_bytes, **sizes)
        np.testing.assert_array_equal(other.coefficients, kept.coefficients)
        np.testing.assert_array_equal(other.decision_many(X), kept.decision_many(X))
        assert other.nbytes - grown(kernel=kernel, cache_bytes=0, **sizes).nbytes <= cache_bytes


@pytest.mark.one_in(3)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("loss", "task"), TASKS)
def test_a_step_on_kept_frequencies_is_a_step_on_new_ones(loss, task, step):
    """The short way of a small step and the long way round the same, whatever the loss."""
    X, y = stream(task, 240)
    options = {"dtype": "float32", "batch_size": 8, "step": STEPS[step][0]}
    for sizes in ({"block_size": 50}, {"block_size": 100, "max_features": 250}):
        kept = model(loss, task, **options, **sizes)
        new = model(loss, task, cache_bytes=0, **options, **sizes)
        for first in range(0, 240, 60):
            some = slice(first, first + 60)
            for learner in (kept, new):
                learner.learn_many(X[some], labels_of(task, y[some]))
        a, b = kept.state(), new.state()
        assert a.header["scale"] == b.header["scale"]
        for name, array in a.arrays.items():
            np.testing.assert_array_equal(array, b.arrays[name])


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.usefixtures("many_threads")
def test_threads_change_nothing(threads):
    """Enough work that threads are used: 400 rows of 2,000 features of 12 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    y = rng.normal(size=400)
    options = {"batch_size": 400, "block_size": 1000, "dtype": "float32"}
    one, several = (model("squared", "numbers", threads=n, **options) for n in (1, threads))
    for _ in range(2):
        one.learn_many(X, y)
        several.learn_many(X, y)
    np.testing.assert_array_equal(several.coefficients, one.coefficients)
    np.testing.assert_array_equal(several.decision_many(X), one.decision_many(X))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", [kernels.Gaussian(), kernels.Laplacian(), kernels.Linear()])
@pytest.mark.parametrize("task", ["two", "third comes late", "numbers"])
def test_a_row_is_predicted_the_same_in_any_batch(task, kernel, dtype):
    loss = "squared" if task == "numbers" else "logistic"
    learner = grown(task, loss, n=200, kernel=kernel, dtype=dtype)
    X, _ = stream("two", 301, d=5, seed=5)
    whole = learner.decision_many(X)
    for size in (1, 2, 3, 7, 16, 100, 300):
        parts = [learner.decision_many(X[i : i + size]) for i in range(0, len(X), size)]
        np.testing.assert_array_equal(np.vstack(parts), whole)
    np.testing.assert_array_equal(learner.decision_many(X[::-1]), whole[::-1])
    if task != "numbers":
        p = learner.predict_proba_many(X)
        np.testing.assert_array_equal(learner.predict_proba_many(X[7:8]), p[7:8])


def test_single_precision_is_near_double():
    X, _ = stream("two", 50, d=5, seed=9)
    a, b = grown(dtype="float32"), grown(dtype="float64")
    np.testing.assert_allclose(a.decision_many(X), b.decision_many(X), atol=1e-3)


# --- columns --------------------------------------------------------------------------------


def test_the_order_of_columns_changes_nothing_but_rounding():
    X, y = stream("two", 200, d=4)
    order = [2, 0, 3, 1]
    names = ["a", "b", "c", "d"]
    one, other = model(columns=names), model(columns=[names[j] for j in order])
    one.learn_many(X, LABELS[y])
    other.learn_many(X[:, order], LABELS[y])
    np.testing.assert_allclose(other.coefficients, one.coefficients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cache_bytes", [0, 2**20])
def test_a_column_that_comes_late_was_always_zero(cache_bytes):
    X, y = stream("two", 300, d=3)
    X[:150, 2] = 0.0
    late, always = (
        model(columns=columns, cache_bytes=cache_bytes) for columns in (["a", "b"], ["a", "b", "c"])
    )
    late.learn_many(X[:150, :2], LABELS[y[:150]])
    before = late.decision_many(X[:50, :2])
    late.add_columns(["c"])
    assert late.columns == ("a", "b", "c")
    np.testing.assert_allclose(late.decision_many(X[:50]), before, atol=1e-12)
    late.learn_many(X[150:], LABELS[y[150:]])
    always.learn_many(X, LABELS[y])
    np.testing.assert_allclose(late.coefficients, always.coefficients, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(late.decision_many(X), always.decision_many(X), atol=1e-10)


def test_columns_are_counted_when_they_have_no_names():
    learner = model()
    assert learner.columns is None
    learner.learn_many([[0.0, 1.0]], ["a"])
    assert learner.columns == (0, 1)


# --- state and merging ----------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("sizes", [{}, {"max_features": 40}], ids=["growing", "revisiting"])
@pytest.mark.parametrize(
    ("loss", "task"),
    [("logistic", "two"), ("hinge", "third comes late"), ("softmax", "third comes late"),
     ("quantile", "numbers")],
)  # fmt: skip
def test_a_restart_goes_on_as_if_nothing_had_happened(loss, task, sizes, step):
    X, y = stream(task, 400)
    y = labels_of(task, y)
    options = {"step": STEPS[step][0], "dtype": "float32", "block_size": 7, **sizes}
    straight = model(loss, task, **options)
    straight.learn_many(X[:100], y[:100])
    saved = through_json(straight.state())
    resumed = DoublyStochastic.from_state(saved)
    assert_same(resumed, straight)
    np.testing.assert_array_equal(resumed.decision_many(X), straight.decision_many(X))
    for first in range(100, 400, 6):  # 50 steps of growing, a third class among them
        straight.learn_many(X[first : first + 6], y[first : first + 6])
        resumed.learn_many(X[first : first + 6], y[first : first + 6])
    assert_same(resumed, straight)
    assert resumed.n_events == 400
    again = DoublyStochastic.from_state(saved)  # what was saved is still what it was
    assert again.n_events == 100
    assert again.n_features == (40 if sizes else 350)


def test_a_model_that_has_seen_nothing_has_a_state():
    fresh = model("softmax")
    other = DoublyStochastic.from_state(through_json(fresh.state()))
    X, y = stream("two", 20)
    for learner in (fresh, other):
        learner.learn_many(X, LABELS[y])
    assert_same(other, fresh)


def test_labels_keep_their_type_in_a_state():
    for values in ([False, True], [3, -1], ["3", "x"]):
        learner = model()
        learner.learn_many([[0.0], [1.0]], values)
        other = DoublyStochastic.from_state(through_json(learner.state()))
        assert other.classes == tuple(values)
        assert [type(label) for label in other.classes] == [type(label) for label in values]
        assert {type(label) for label in other.predict_many([[0.0], [1.0]])} == {type(values[0])}


def broken(change):
    learner = model("logistic", step=AdaGrad(0.1))
    X, y = stream("two", 60)
    learner.learn_many(X, LABELS[y])
    state = through_json(learner.state())
    change(state)
    return state


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.header.update(type="other"),
        lambda s: s.header.pop("loss"),
        lambda s: s.header.pop("seed"),
        lambda s: s.header.pop("scale"),
        lambda s: s.header.update(step={"step": "sideways"}),
        lambda s: s.header.update(step={}),
        lambda s: s.header.update(kernel={"kernel": "unknown"}),
        lambda s: s.header.update(block_size=-3),
        lambda s: s.header.update(n_steps="many"),
        lambda s: s.arrays.pop("coefficients"),
        lambda s: s.arrays.pop("squares"),
        lambda s: s.arrays.update(coefficients=s.arrays["coefficients"][:, :, :5]),
        lambda s: s.arrays.update(coefficients=s.arrays["coefficients"][:1]),
        lambda s: s.arrays.update(squares=s.arrays["squares"][:1]),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change):
    with pytest.raises(StateError):
        DoublyStochastic.from_state(broken(change))


def weights(mine, others):
    return mine / (mine + others), others / (mine + others)


@pytest.mark.parametrize("sizes", [{}, {"max_features": 30}], ids=["growing", "revisiting"])
@pytest.mark.parametrize("loss", ["logistic", "softmax", "hinge"])
def test_merging_is_the_weighted_mean_of_what_each_learned(loss, sizes):
    X, y = stream("two", 400)
    base = model(loss, **sizes)
    base.learn_many(X[:100], LABELS[y[:100]])
    mine, others = (DoublyStochastic.from_state(base.state()) for _ in range(2))
    mine.learn_many(X[100:340], LABELS[y[100:340]])
    others.learn_many(X[340:], LABELS[y[340:]])
    n = max(mine.n_features, others.n_features)

    def padded(learner):
        a = learner.coefficients
        return np.vstack([a, np.zeros((n - len(a), a.shape[1]))])

    v, w = weights(240, 60)
    start = padded(base)
    expected = start + v * (padded(mine) - start) + w * (padded(others) - start)
    mine.merge(others, common_events=base.n_events)
    np.testing.assert_allclose(mine.coefficients, expected, rtol=1e-12, atol=1e-14)
    assert mine.n_events == 400
    mine.learn_many(X[:4], LABELS[y[:4]])  # and it goes on
    assert np.isfinite(mine.coefficients).all()


def test_merging_two_models_without_a_common_past():
    X, y = stream("numbers", 300)
    mine, others = model("squared", "numbers"), model("squared", "numbers")
    mine.learn_many(X[:200], y[:200])
    others.learn_many(X[200:], y[200:])
    v, w = weights(200, 100)
    expected = v * mine.decision_many(X) + w * others.decision_many(X)
    mine.merge(others)
    np.testing.assert_allclose(mine.decision_many(X), expected, atol=1e-12)
    assert mine.n_events == 300


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


def test_merging_matches_columns_by_their_names():
    X, y = stream("numbers", 200)
    mine = model("squared", "numbers", columns=["a", "b"])
    others = model("squared", "numbers", columns=["c", "b", "a"])
    mine.learn_many(X[:100, :2], y[:100])
    others.learn_many(X[100:, [2, 1, 0]], y[100:])
    expected = 0.5 * mine.decision_many(X[:, :2] * [1, 1])
    Z = X.copy()
    Z[:, 2] = 0.0
    expected = expected + 0.5 * others.decision_many(Z[:, [2, 1, 0]])
    mine.merge(others)
    assert mine.columns == ("a", "b", "c")
    np.testing.assert_allclose(mine.decision_many(Z), expected, atol=1e-10)


def test_merging_leaves_the_others_alone_and_nothing_new_changes_nothing():
    X, y = stream("two", 200)
    base = model(step=AdaGrad(0.2))
    base.learn_many(X[:100], LABELS[y[:100]])
    mine, others = (DoublyStochastic.from_state(base.state()) for _ in range(2))
    mine.learn_many(X[100:], LABELS[y[100:]])
    before = DoublyStochastic.from_state(mine.state())
    mine.merge(others, common_events=100)
    assert_same(mine, before)
    others.merge(mine, common_events=100)  # all the weight is on the one that learned
    np.testing.assert_allclose(others.coefficients, mine.coefficients, rtol=1e-12)
    assert_same(mine, before)
    assert base.n_events == 100


def test_merging_takes_the_mean_of_squared_gradients_too():
    X, y = stream("two", 300)
    mine, others = (model(step=AdaGrad(0.2), max_features=30) for _ in range(2))
    mine.learn_many(X[:200], LABELS[y[:200]])
    others.learn_many(X[200:], LABELS[y[200:]])
    a, b = (learner.state().arrays["squares"] for learner in (mine, others))
    v, w = weights(200, 100)
    mine.merge(others)
    np.testing.assert_allclose(mine.state().arrays["squares"], v * a + w * b, rtol=1e-12)


def test_one_that_has_seen_nothing_takes_over_what_another_learned():
    """A member that joins late merges at once, before any event of its own."""
    X, y = stream("two", 100)
    fresh, learned = model(), model()
    learned.learn_many(X, LABELS[y])
    before = learned.coefficients
    learned.merge(model())
    np.testing.assert_array_equal(learned.coefficients, before)
    fresh.merge(learned)
    np.testing.assert_allclose(fresh.coefficients, before, rtol=1e-12)
    assert (fresh.classes, fresh.columns) == (learned.classes, learned.columns)
    np.testing.assert_allclose(fresh.decision_many(X), learned.decision_many(X), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"seed": 12}, "seed"),
        ({"kernel": kernels.Gaussian(bandwidth=0.8)}, "kernel"),
        ({"loss": "hinge"}, "loss"),
        ({"step": Constant(0.4)}, "step"),
        ({"regularization": 0.5}, "regularization"),
        ({"block_size": 4}, "block_size"),
        ({"max_features": 99}, "max_features"),
        ({"dtype": "float32"}, "dtype"),
    ],
)
def test_learners_that_differ_do_not_merge(options, word):
    mine, others = model("logistic"), model(**options)
    with pytest.raises(InvalidInput, match=word):
        mine.merge(others)


def test_learners_that_differ_only_in_memory_merge():
    model(cache_bytes=0, threads=1).merge(model(cache_bytes=99, threads=2))


@pytest.mark.parametrize("common", [-1, 11, 21])
def test_more_events_in_common_than_were_learned_are_refused(common):
    X, y = stream("two", 30)
    mine, others = model(), model()
    mine.learn_many(X[:10], LABELS[y[:10]])
    others.learn_many(X[10:], LABELS[y[10:]])
    with pytest.raises(InvalidInput, match=f"common_events={common}"):
        mine.merge(others, common_events=common)


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


# --- it learns ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_it_learns_three_classes(loss):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(3000, 2))
    y = LABELS[(np.hypot(*X.T) > 0.5).astype(int) + (np.hypot(*X.T) > 0.85)]
    learner = DoublyStochastic(
        kernels.Gaussian(bandwidth=0.3), loss=loss, task="classification", seed=1,
        step=Constant(1.0), batch_size=16, max_features=2048,
    )  # fmt: skip
    learner.learn_many(X[:2500], y[:2500])
    assert (learner.predict_many(X[2500:]) == y[2500:]).mean() > 0.85
    p = learner.predict_proba_many(X[2500:])
    assert p.dtype == np.float64
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_quantiles_leave_their_share_of_labels_below(q):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(6000, 1))
    y = np.sin(3.0 * X[:, 0]) + rng.exponential(size=6000)
    learner = DoublyStochastic(
        kernels.Gaussian(bandwidth=0.4), loss=make_loss("quantile", q=q), seed=1,
        step=Constant(0.2), batch_size=16, max_features=1024,
    )  # fmt: skip
    learner.learn_many(X[:5000], y[:5000])
    below = (y[5000:] < learner.predict_many(X[5000:])).mean()
    assert abs(below - q) < 0.06


# --- before learning, and errors ------------------------------------------------------------


def test_before_learning():
    regression = model("squared", "numbers")
    np.testing.assert_array_equal(regression.predict_many([[1.0, 2.0]]), [0.0])
    assert regression.predict_many([[1.0, 2.0]]).dtype == np.float64
    classifier = model()
    assert classifier.classes == ()
    for call in (classifier.predict_many, classifier.predict_proba_many):
        with pytest.raises(NotLearned):
            call([[1.0, 2.0]])
    assert (classifier.n_events, classifier.n_features) == (0, 0)
    known = model("logistic", classes=["no", "yes"])
    np.testing.assert_array_equal(known.predict_proba_many([[1.0, 2.0]]), [[0.5, 0.5]])


def test_one_class_is_certain():
    for loss in CLASSIFICATION:
        learner = model(loss)
        learner.learn_many([[0.0], [1.0]], ["only", "only"])
        assert learner.predict_many([[0.5]]).tolist() == ["only"]
        np.testing.assert_array_equal(learner.predict_proba_many([[0.5]]), [[1.0]])


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[0.0, 1.0, math.nan]], ["a"], ["row 0", "column 2", "nan"]),
        ([[0.0, 1.0, 2.0], [0.0, math.inf, 2.0]], ["a", "b"], ["row 1", "column 1", "inf"]),
        ([[0.0, -math.inf, 2.0]], ["a"], ["row 0", "column 1", "-inf"]),
        ([[0.0, 1.0]], ["a"], ["2 columns", "3", "add_columns"]),
        ([0.0, 1.0, 2.0], ["a"], ["(3,)"]),
        ([[0.0, 1.0, 2.0]], ["a", "b"], ["1 events", "2 labels"]),
        ([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]], ["a", None], ["row 1", "None"]),
        ([[0.0, 1.0, 2.0]], [math.nan], ["row 0", "nan"]),
        ([[0.0, 1.0, 2.0]], [0.25], ["row 0", "0.25", "regression"]),
        ([[0.0, 1.0, 2.0]], [["a"]], ["row 0", "['a']"]),
    ],
)
def test_a_bad_event_is_named_and_nothing_is_learned(X, y, words):
    learner = model(block_size=5)
    good, labels = stream("two", 20)
    learner.learn_many(good, LABELS[labels])
    before = DoublyStochastic.from_state(learner.state())
    with pytest.raises(InvalidInput) as error:
        learner.learn_many(X, y)
    for word in words:
        assert word in str(error.value)
    assert_same(learner, before)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([0.0, math.nan], ["row 1", "nan"]),
        ([math.inf, 0.0], ["row 0", "inf"]),
        (["a", "b"], ["numbers", "classification"]),
        ([None, 1.0], ["row 0"]),
        ([[1.0], [2.0]], ["(2,)", "(2, 1)"]),
    ],
)
def test_a_bad_number_is_named_and_nothing_is_learned(y, words):
    learner = model("squared", "numbers")
    with pytest.raises(InvalidInput) as error:
        learner.learn_many([[0.0, 1.0], [1.0, 0.0]], y)
    for word in words:
        assert word in str(error.value)
    assert learner.n_events == 0
    assert learner.columns is None, "a refused first batch must not fix the columns"


@pytest.mark.parametrize(("dtype", "label"), [("float32", 1e39), ("float64", -1e200)])
def test_one_huge_label_cannot_end_a_model(dtype, label):
    """Its gradient would not be a number of the dtype, nor any coefficient after it."""
    learner = model("squared", "numbers", dtype=dtype)
    X, y = stream("numbers", 40)
    learner.learn_many(X, y)
    before = DoublyStochastic.from_state(learner.state())
    with pytest.raises(InvalidInput, match=r"row 1 .*too large"):
        learner.learn_many(X[:2], [0.5, label])
    assert_same(learner, before)


def test_a_column_is_named_by_its_name():
    learner = model(columns=["age", "size"])
    with pytest.raises(InvalidInput, match=r"row 1.*size.*nan"):
        learner.predict_many([[0.0, 1.0], [1.0, math.nan]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "hing"}, ["hing", "hinge", "logistic"]),
        ({"loss": "quantile", "task": "classification"}, ["quantile", "classification"]),
        ({"loss": "softmax", "task": "regression"}, ["softmax", "regression"]),
        ({"task": "ranking"}, ["ranking", "classification", "regression"]),
        ({"seed": -1}, ["seed=-1"]),
        ({"regularization": -0.1}, ["regularization=-0.1", "at least 0"]),
        ({"regularization": math.nan}, ["regularization=nan"]),
        ({"batch_size": 0}, ["batch_size=0", "at least 1"]),
        ({"batch_size": 2.5}, ["batch_size=2.5", "whole"]),
        ({"block_size": 0}, ["block_size=0"]),
        ({"max_features": 0}, ["max_features=0"]),
        ({"cache_bytes": -1}, ["cache_bytes=-1"]),
        ({"threads": 0}, ["threads=0"]),
        ({"dtype": "int8"}, ["int8", "float32"]),
        ({"sampler": "sobol"}, ["sobol", "iid"]),
        ({"backend": "fortran"}, ["fortran", "cupy"]),
        ({"loss": "huber", "classes": ["a"]}, ["classes", "classification"]),
        ({"columns": ["a", "a"]}, ["twice", "a"]),
        ({"regularization": "much"}, ["regularization", "much"]),
        ({"seed": True}, ["seed=True", "whole number"]),
        ({"step": 0.5}, ["step=0.5", "Step"]),
        ({"loss": 3}, ["loss=3", "Loss"]),
        ({"kernel": "gaussian"}, ["kernel='gaussian'", "Kernel"]),
    ],
)
def test_a_wrong_option_is_named_with_the_fix(options, words):
    with pytest.raises(InvalidInput) as error:
        DoublyStochastic(**{"kernel": kernels.Gaussian(), **options})
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("make", [InverseTime, Constant, AdaGrad])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "one"])
def test_steps_must_be_positive(make, value):
    with pytest.raises(InvalidInput, match=str(value)):
        make(value)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "one"])
def test_an_offset_must_not_be_negative(value):
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


@pytest.mark.parametrize("nu", [1.0, 0.1, 0.01])
def test_inverse_time_does_not_explode_with_its_offset(nu):
    """Without one the largest |f| is 5e6 at nu = 0.1, and 1e58 at 0.01."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=3000)
    learner = DoublyStochastic(
        kernels.Gaussian(bandwidth=0.5),
        loss="squared",
        step=InverseTime(1.5 / nu),
        regularization=nu,
        batch_size=1,
        block_size=1,
        max_features=3000,
        dtype="float64",
    )
    largest = 0.0
    for start in range(0, 3000, 100):
        learner.learn_many(X[start : start + 100], y[start : start + 100])
        largest = max(largest, float(np.abs(learner.decision_many(X[:200])).max()))
    assert largest < 5.0


def test_more_errors():
    with pytest.raises(InvalidInput, match="probabilities"):
        model("squared", "numbers").predict_proba_many([[1.0]])
    learner = model(columns=["a"])
    with pytest.raises(InvalidInput, match="twice"):
        learner.add_columns(["a"])
    assert learner.columns == ("a",)
    with pytest.raises(InvalidInput, match="columns"):
        learner.predict_one([1.0, 2.0])
    with pytest.raises(InvalidInput, match="shape"):
        learner.predict_one([[1.0]])


def test_a_model_that_overflows_says_so_instead_of_learning_nan():
    learner = model("squared", "numbers", step=Constant(50.0), batch_size=1, max_features=3)
    X, y = stream("numbers", 2000)
    with pytest.raises(InvalidInput, match=r"overflow.*(smaller step|scale)"):
        learner.learn_many(X, y)


def test_a_model_that_overflowed_while_growing_can_be_saved():
    learner = model("squared", "numbers", step=Constant(1e9), batch_size=1, block_size=64)
    X, y = stream("numbers", 200)
    with pytest.raises(InvalidInput, match="overflow"):
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
