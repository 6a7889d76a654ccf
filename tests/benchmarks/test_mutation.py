"""The sample of mutants: which tests it runs for a line, and what it says of the outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import mutation
from benchmarks.mutation import Mutant

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
