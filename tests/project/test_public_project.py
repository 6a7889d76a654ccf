"""What the public project needs beside the code: workflows, templates, and a release by tag."""

from __future__ import annotations

import re
import runpy
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

import streamk

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
notes = runpy.run_path(str(ROOT / ".ci" / "release.py"))["notes"]


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def commands(path: Path) -> list[str]:
    return [
        step["run"]
        for job in loaded(path)["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_of_workflows_are_the_projects(path: Path) -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    markers = {
        line.partition(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]
    }
    for command in commands(path):
        assert set(re.findall(r"'\.\[(\w+)\]'", command)) <= extras.keys(), command
        words = shlex.split(command)
        if words[0] == "pytest":
            assert set(re.findall(r"\w+", words[words.index("-m") + 1])) - {"not", "and"} <= markers
        for word in words[1:]:
            if word.startswith((".ci/", "tests/", "docs/")):
                assert (ROOT / word).exists(), command


def test_every_python_that_is_promised_is_tested() -> None:
    tested = loaded(ROOT / ".github/workflows/tests.yml")["jobs"]["python"]["strategy"]["matrix"]
    promised = re.findall(
        r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), re.M
    )
    assert tested["python"] == promised
    assert PROJECT["project"]["requires-python"] == f">={promised[0]}"


# --- a release by tag -----------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "streamk").mkdir()
    (tmp_path / "streamk" / "__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("title: streamk\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1.2.0 (2030-01-01)\n\n- One thing.\n\n## 1.1.0\n\n- Another.\n"
    )
    return tmp_path


def test_a_release_has_its_part_of_the_changelog(project: Path) -> None:
    assert notes("v1.2.0", project) == "- One thing.\n"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("streamk/__init__.py", '__version__ = "1.1.0"\n', r"__init__\.py has version 1\.1\.0"),
        ("CITATION.cff", "title: streamk\n", r"CITATION\.cff has no version"),
        (
            "CHANGELOG.md",
            "# Changelog\n\n## 1.2.0\n\n## 1.1.0\n\n- It.\n",
            "nothing under a heading",
        ),
        ("CHANGELOG.md", "# Changelog\n", "nothing under a heading"),
    ],
)
def test_a_release_is_refused_where_files_differ(
    project: Path, name: str, text: str, says: str
) -> None:
    (project / name).write_text(text)
    with pytest.raises(SystemExit, match=says):
        notes("v1.2.0", project)


def test_the_citation_is_of_this_version() -> None:
    assert loaded(ROOT / "CITATION.cff")["version"] == streamk.__version__
