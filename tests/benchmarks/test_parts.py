"""What the benchmarks are made of: data, rivals of papers, statistics, pages, mutants."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_host import HostDevice
from cuda_kit import GPU_LACKS, backend_at
from numpy.typing import NDArray
from reference import landmarks as naive_landmarks
from reference import meka as naive_meka

from benchmarks import (
    adult,
    common,
    doubly_stochastic,
    gpu,
    headlines,
    meka,
    multi_kernel,
    mutation,
    oasis,
    signals,
)
from benchmarks.common import RESULTS
from benchmarks.data import DataError, load
from benchmarks.doubly_stochastic import Norma, gaussian
from benchmarks.multi_kernel import AGAINST, calibration_error
from benchmarks.mutation import Mutant
from benchmarks.page import FIRST, TOPICS, first_page, page, pages
from benchmarks.streams import FILES, NUMBERS, RIVERS, STREAMS
from benchmarks.streams import load as load_stream
from streamk import backends, factorization
from streamk.kernels import Gaussian, base
from streamk.learners.common.steps import InverseTime


def test_without_data_the_command_says_where_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert common.main(adult.run, []) == 2
    said = capsys.readouterr().err
    assert "docs/data.md" in said
    assert "STREAMK_DATA" in said


def save(directory: Path, **changed: Any) -> Path:
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.integers(0, 2, (9, 123)).astype(np.uint8),
        "y": np.array([-1, 1, -1] * 3, dtype=np.int8),
        "X_test": np.ones((2, 123), dtype=np.uint8),
        "y_test": np.array([1, -1], dtype=np.int8),
        **changed,
    }
    np.savez(directory / "a9a.npz", **{k: v for k, v in arrays.items() if v is not None})
    return directory


def test_a_set_is_read_from_the_directory_or_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load("a9a", save(tmp_path))
    assert data.X.dtype == np.float32
    assert data.y.tolist() == [False, True, False] * 3
    assert data.test[1].tolist() == [True, False]
    monkeypatch.setenv("STREAMK_DATA", str(tmp_path))
    assert load("a9a", None).describe() == data.describe()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": np.zeros((9, 8))}, r"X of shape \(9, 8\), not \(events, 123\)"),
        ({"y": None}, "no array 'y'"),
        ({"y": np.arange(9)}, "label 0 is none of"),
    ],
)
def test_another_set_of_that_name_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load("a9a", save(tmp_path, **changed))


@pytest.mark.parametrize(("content", "message"), [(None, "is not there"), (b"?", "cannot be read")])
def test_a_file_that_is_no_data_set(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "elec2.npz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load("elec2", tmp_path)


# --- streams of the river battery ----------------------------------------------------------------


def stream(name: str, n: int = 0) -> Any:
    return load_stream(name, None, quick=True, events=n)


def test_streams_are_events_of_one_kind() -> None:
    assert (*FILES, *RIVERS, *NUMBERS) == tuple(STREAMS)
    for name in STREAMS:
        found = stream(name, 40)
        events = found.events()
        assert len(events) == len(found) == 40
        assert (found.task == "regression") == (name in NUMBERS)
        assert {type(label) for _, label in events} <= {bool, int, float}
        assert found.describe() == stream(name, 40).describe()


def test_what_is_missing_is_left_out_or_none() -> None:
    found = stream("airlines_h2o_44k")
    last = found.columns[-1]
    assert last not in found.events()[5][0]
    assert found.events(none=True)[5][0][last] is None
    assert found.events(none=True)[6] == found.events()[6]


Numbers = NDArray[Any]


# --- oASIS --------------------------------------------------------------------------------------


def test_matrices_are_the_papers() -> None:
    X, sigma = oasis.two_moons(50), 0.3
    N = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / sigma**2)
    np.testing.assert_allclose(oasis.Problem("", X, sigma).matrix(), N, rtol=1e-12)
    diffusion = oasis.Problem("", X, sigma, "diffusion").matrix()
    np.testing.assert_allclose(diffusion, naive_landmarks.diffusion_matrix(N), rtol=1e-12)


# --- MEKA ---------------------------------------------------------------------------------------


def plane(n: int = 120) -> Any:
    return np.random.default_rng(1).random((n, 2))


def nearest(X: Any, rows: Any) -> Any:
    """Numbers of some rows among X."""
    return np.abs(X[None] - rows[:, None]).sum(axis=2).argmin(axis=1)


def test_errors_are_on_the_rows_of_meka() -> None:
    X, kernel = plane(), Gaussian(gamma=3.0)
    found = factorization.meka(X, kernel, rank=4, n_clusters=3, dtype="float64")
    G = kernel.pairwise(X)
    every = np.arange(len(X))
    approximation = found.approximate(every[:, None], every)
    drawn = meka.rows(len(X), 40, 7)
    expected = np.linalg.norm((approximation - G)[drawn]) / np.linalg.norm(G[drawn])
    assert found.error(40, 7) == pytest.approx(expected)
    F = np.random.default_rng(2).random((len(X), 3))
    missed = np.linalg.norm((F @ F.T - G)[drawn]) / np.linalg.norm(G[drawn])
    assert meka.relative(X, kernel, F, 40, 7) == pytest.approx(missed)


def test_nystrom_rivals_are_the_oracles() -> None:
    X, kernel, rank = plane(), Gaussian(gamma=3.0), 6
    G = kernel.pairwise(X)

    def columns(count: int, seed: Any) -> Any:
        return nearest(X, meka._drawn(X, count, seed))

    drawn = columns(2 * rank, 1)
    C, M = G[:, drawn], G[np.ix_(drawn, drawn)]
    expected = {
        "Nys": naive_meka.nystrom(C, M, rank),
        "RNys": naive_meka.nystrom(C, M, rank),
        meka.CUT_LATER: naive_meka.truncated_nystrom(C, M, rank),
    }
    for name, basis in expected.items():
        F = meka.RIVALS[name](X, kernel, rank, 1).factor.astype(np.float64)
        # RNys finds leading vectors up to how far the next value is.
        tolerance = 3e-3 if name == "RNys" else 1e-5
        np.testing.assert_allclose(F @ F.T, basis.W @ basis.L @ basis.W.T, atol=tolerance)
    samples = [columns(4, [1, expert]) for expert in range(3)]
    ensemble = naive_meka.ensemble_nystrom(G, samples, rank // 3)
    F = meka.enys(X, kernel, rank, 1).factor.astype(np.float64)
    np.testing.assert_allclose(F @ F.T, ensemble, atol=1e-5)


# --- NORMA --------------------------------------------------------------------------------------

N, GAMMA, NU = 300, 0.7, 0.02


@pytest.fixture(scope="module")
def events() -> tuple[Numbers, Numbers]:
    random = np.random.default_rng(0)
    X = random.normal(size=(N, 3)).astype(np.float32)
    noise = 0.3 * random.normal(size=N)
    return X, np.where(X[:, 0] * X[:, 1] + noise > 0, 1.0, -1.0)


def test_norma_takes_the_steps_of_its_paper(events: tuple[Numbers, Numbers]) -> None:
    X, y = events
    rule = InverseTime(30.0, offset=10.0)
    model = Norma(GAMMA, NU, rule)
    for at in range(0, N, 110):
        model.learn(at, X[at : at + 110], y[at : at + 110])
    K = gaussian(X.astype(np.float64), X.astype(np.float64), GAMMA)
    numbers = np.zeros(N)
    for t in range(N):
        score = K[t] @ numbers
        numbers *= 1.0 - rule.size(t + 1) * NU
        if y[t] * score < 1.0:
            numbers[t] = rule.size(t + 1) * y[t]
    np.testing.assert_allclose(model.scores(X), K @ numbers, atol=1e-3)
    assert model.expansion.size == np.count_nonzero(numbers) < N


# --- variants of the multi-kernel learner ---------------------------------------------------------


def variant(name: str) -> Any:
    return next(v for whole, less in AGAINST for v in (whole, *less) if v.name == name)


def learned(name: str, found: Any) -> Any:
    """A variant's model after all events of a stream."""
    one = variant(name)
    with one.constants():
        model = multi_kernel.Direct(found, one.make)
        multi_kernel.run_through(model, found, one.delay)
    return model.model


@pytest.mark.parametrize("bank", range(5))
def test_a_bank_without_a_say_sleeps(bank: int) -> None:
    from streamk.backends.banks import BANKS

    model = learned(f"no {BANKS[bank].name}", stream("Waveform", 150))
    asleep = ~model._mixture.pool.arrays["ACTIVE"]
    assert asleep.tolist() == [n == bank for n in range(5)]
    said = model.decision_one(np.zeros(len(model.columns)))
    assert model.shares(np.zeros(len(model.columns)))[BANKS[bank].name] == 0
    assert said.sum() == pytest.approx(1)


# --- statistics -----------------------------------------------------------------------------------


def test_a_mean_has_the_interval_of_students_t() -> None:
    figure = common.mean([1.0, 2.0, 3.0])
    assert figure["mean"] == 2.0
    assert figure["half"] == pytest.approx(4.302653 / 3**0.5)
    assert common.cell(figure, 2) == "2.00 ± 2.48"
    assert common.cell(common.mean([0.5])) == "0.5000"


def test_contestants_take_turns() -> None:
    order: list[str] = []

    def contestant(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = common.in_turn({name: lambda name=name: contestant(name) for name in "ab"}, 3)
    assert order == ["a", "b"] * 3
    assert found == {"a": [1.0, 3.0, 5.0], "b": [2.0, 4.0, 6.0]}


def test_a_slope_of_logarithms_is_that_of_a_power() -> None:
    t = np.array([10, 100, 1000])
    assert doubly_stochastic.slope(t, 5.0 / t) == pytest.approx(-1.0)


def test_calibration_error() -> None:
    p = np.array([0.9, 0.91, 0.52, 0.55, 1.0])
    right = np.array([True, False, True, True, True])
    # 0.9 and 0.91 share a bin, 0.52 another one with 0.55's neighbour left alone, 1 is the last.
    expected = (abs(0.9 + 0.91 - 1) + abs(0.52 - 1) + abs(0.55 - 1) + 0.0) / 5
    assert calibration_error(p, right) == pytest.approx(expected)
    rng = np.random.default_rng(1)
    p = rng.uniform(0.5, 1, 100_000)
    assert calibration_error(p, rng.random(len(p)) < p) < 0.01


def test_the_lowest_coverage_is_of_successive_events() -> None:
    held = np.ones(5000)
    held[2000:3000:4] = 0.0
    assert signals.lowest(held) == 0.75
    assert signals.lowest(np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])) == 0.5


# --- pages ----------------------------------------------------------------------------------------


def test_the_pages_say_what_the_results_say() -> None:
    text = FIRST.read_text(encoding="utf-8")
    assert first_page(text) == text, "run python -m benchmarks.page"
    assert len(text.splitlines()) <= 120
    for path, tables in pages().items():
        text = path.read_text(encoding="utf-8")
        assert page(text, tables) == text, "run python -m benchmarks.page"


def test_every_row_of_the_first_page_is_there() -> None:
    names = {one.results for one in headlines.HEADLINES}
    documents = {name: json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in names}
    table = headlines.render(documents)
    for one in headlines.HEADLINES:
        assert f"| {one.what} |" in table


def test_results_are_of_full_runs_and_on_a_page() -> None:
    found = sorted(RESULTS.glob("*.json"))
    assert [path.stem for path in found] == sorted(TOPICS)
    for path in found:
        assert not json.loads(path.read_text(encoding="utf-8"))["quick"], path.name


def test_pictures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")
    from PIL import Image

    from benchmarks import plots

    for name in plots.PICTURES:
        document = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        with Image.open(plots.draw(name, document, tmp_path)) as image:
            assert len(image.convert("RGB").getcolors() or []) >= 4


# --- mutation -------------------------------------------------------------------------------------

XML = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_slow" time="30.0" />
<testcase classname="tests.test_a" name="test_quick[1-2]" time="0.5" />
<testcase classname="tests.test_b.TestIt" name="test_it" time="3.0" />
</testsuite></testsuites>"""
SLOW, QUICK, METHOD = (
    "tests/test_a.py::test_slow",
    "tests/test_a.py::test_quick[1-2]",
    "tests/test_b.py::TestIt::test_it",
)


@pytest.fixture
def tests(tmp_path: Path) -> mutation.Tests:
    coverage = pytest.importorskip("coverage", reason="coverage is not installed")
    package = tmp_path / "streamk"
    package.mkdir()
    (package / "__init__.py").touch()
    data = coverage.CoverageData(str(tmp_path / "measured"))
    for context, lines in (
        ("", [1, 4]),
        (f"{SLOW}|run", [10]),
        (f"{QUICK}|run", [10]),
        (f"{QUICK}|setup", [10]),
        (f"{METHOD}|run", [10, 12]),
    ):
        data.set_context(context)
        data.add_lines({str(package / "module.py"): lines})
    data.write()
    seconds = tmp_path / "tests.xml"
    seconds.write_text(XML)
    return mutation.Tests(tmp_path / "measured", seconds)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (10, [QUICK, METHOD, SLOW]),
        (11, [QUICK, METHOD, SLOW]),  # the same statement, or one that nothing executes
        (12, [METHOD]),
        (4, [QUICK, METHOD, SLOW]),  # executed at import alone
    ],
)
def test_a_line_has_the_tests_that_execute_it(
    tests: mutation.Tests, line: int, expected: list[str]
) -> None:
    assert tests.of(Mutant("streamk/module.py", line, "core/AddNot", 0)) == expected


def test_a_module_that_no_test_imports_has_none(tests: mutation.Tests) -> None:
    assert tests.of(Mutant("streamk/other.py", 1, "core/AddNot", 0)) == []


def test_a_compiled_function_has_the_tests_of_the_folder(tests: mutation.Tests) -> None:
    mutant = Mutant(f"{mutation.NUMBA}/sums.py", 3, "core/AddNot", 0)
    assert tests.of(mutant) == [mutation.MIRROR]


@pytest.mark.nightly
def test_mutants_are_drawn_from_all_rooms_the_same_for_a_seed() -> None:
    pytest.importorskip("cosmic_ray", reason="cosmic-ray is not installed")
    some = mutation.drawn(12, 2, seed=3)
    assert some == mutation.drawn(12, 2, seed=3)
    assert [mutant.compiled for mutant in some] == [False] * 12 + [True] * 2


# --- gpu ------------------------------------------------------------------------------------------


class StandIn:
    """What the benchmark takes of the module `cupy`."""

    __version__ = "0"

    def __init__(self, device: HostDevice) -> None:
        self._xp = device.xp
        self.asarray, self.asnumpy = device.put, device.get
        properties = {"name": b"none", "totalGlobalMem": 1}
        self.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(synchronize=lambda: None),
            runtime=SimpleNamespace(
                getDeviceProperties=lambda _: properties,
                driverGetVersion=lambda: 13000,
                runtimeGetVersion=lambda: 13020,
            ),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, select = backend_at("host"), backends.select

    def selected(name: str = "auto") -> Any:
        return backend if name == "cupy" else select(name)

    for module in (backends, base):
        monkeypatch.setattr(module, "select", selected)
    monkeypatch.setattr(backends, "select_devices", lambda _=None: [backend])
    module = StandIn(HostDevice())
    monkeypatch.setattr(gpu, "cupy", lambda: module)
    monkeypatch.setattr(gpu, "torch", lambda: None)


@pytest.mark.nightly
@pytest.mark.usefixtures("cupy")
def test_all_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.run(["--quick", "--out", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["results"]
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= 104
    for case in found["prediction"]["cases"]:
        assert min(figure["low"] for figure in case["us"].values()) > 0


@pytest.mark.skipif(GPU_LACKS is None, reason="there is a GPU here")
def test_without_a_gpu_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert common.main(gpu.run, []) == 2
    assert "backend 'cupy' needs" in capsys.readouterr().err
