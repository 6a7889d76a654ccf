"""The user guide is true: its examples run, its links lead somewhere, its options exist.

Blocks marked `python` run as they stand; those marked `py` need a broker or the network.
"""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from connectors.registry import schemes
from streamk.adapters import river, sklearn
from streamk.cli import compile as compiling
from streamk.cli import predict
from streamk.cli.run import _parser
from streamk.encoding import BAD_KINDS
from streamk.serving import command as serve

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEXT = {page.name: page.read_text(encoding="utf-8") for page in PAGES}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT[page], flags=re.MULTILINE | re.DOTALL)


FOLLOWED = ("quickstart.md", "tutorial.md")
"""Pages that are run from top to bottom, by tests/project/test_guide.py."""
EXAMPLES = [
    (page, block) for page in TEXT if page not in FOLLOWED for block in blocks(page, "python")
]


def test_the_guide_has_its_pages() -> None:
    assert TEXT.keys() == {
        *("index.md", "streams.md", "resume.md", "models.md", "gpu.md", "data.md", "landmarks.md"),
        *("factorization.md", "metrics.md", "serving.md", "running.md", "gallery.md", "words.md"),
        *("additions.md", "fast_prediction.md", "drift.md", "scale_out.md", "signals.md"),
        *("late_labels.md", "challengers.md", "operations.md"),
        *FOLLOWED,
    }
    contents = (DOCS / "contents.rst").read_text(encoding="utf-8").split()
    assert {page.removesuffix(".md") for page in TEXT} <= set(contents)
    linked = set(re.findall(r"\]\((\w+\.md)\)", TEXT["index.md"]))
    assert linked == TEXT.keys() - {"index.md"}
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize(
    ("page", "source"), EXAMPLES, ids=[f"{page}-{n}" for n, (page, _) in enumerate(EXAMPLES)]
)
def test_examples_run(
    page: str,
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What `debug_one` says is shown on the page."""
    monkeypatch.chdir(tmp_path)  # for the files that they write
    exec(compile(source, page, "exec"), {"__name__": "guide"})

    def lines(text: str) -> list[str]:
        # Figures, and so the order of what follows them, may differ from machine to machine.
        return sorted(re.sub(r"^ +\S+%? |[\d.]+%", "", line) for line in text.strip().splitlines())

    if "debug_one" in source and page == "models.md":
        (shown,) = (block for block in blocks(page, "text") if "share of" in block)
        assert lines(capsys.readouterr().out) == lines(shown)


@pytest.mark.parametrize("adapter", [river, sklearn])
def test_every_estimator_is_in_the_table(adapter: ModuleType) -> None:
    (table,) = re.findall(r"^\| estimators .*?\n\n", TEXT["models.md"], re.MULTILINE | re.DOTALL)
    for name in adapter.__all__:
        made = getattr(adapter, name)
        if isinstance(made, type) and not name.endswith("Nystroem"):  # those are transformers
            assert f"`{name}`" in table


@pytest.mark.parametrize("page", TEXT)
def test_all_examples_are_well_formed(page: str) -> None:
    for block in blocks(page, "py"):
        compile(block, page, "exec")
    for block in blocks(page, "toml"):
        tomllib.loads(block)
    for block in blocks(page, "json"):
        json.loads(block)


@pytest.mark.parametrize("page", TEXT)
def test_links_and_files_are_there(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT[page])
    demos = re.findall(r"demos/\w+\.py", TEXT[page])
    missing = [link for link in links if "://" not in link and not (DOCS / link).exists()]
    missing += [demo for demo in demos if not (DOCS.parent / demo).exists()]
    assert not missing


@pytest.mark.parametrize("page", TEXT)
def test_options_and_addresses_exist(page: str) -> None:
    parsers = _parser(), predict._parser(), compiling._parser(), serve._parser()
    actions = [action for parser in parsers for action in parser._actions]
    flags = {name for action in actions for name in action.option_strings}
    flags |= {"--data", "--schema", "--topic"}
    # What is printed, and programs that are not ours, may have others.
    foreign = r"\$ python|ray|useradd|systemctl|pip|podman|/opt/streamk/bin/pip"
    text = re.sub(rf"^```text\n.*?^```$|^({foreign}) [^\n]*$", "", TEXT[page], flags=re.M | re.S)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= flags
    addresses = set(re.findall(r"[`\"\s](\w+):(?://|[A-Z]{2,}|\w+\.\w+)", text))
    assert addresses <= {*schemes(), "s3", "http"}  # where checkpoints and schemas may lie


def test_the_modules_of_the_reference_are_there() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.rst")]
    modules = [name for page in pages for name in re.findall(r"automodule:: (\S+)", page)]
    assert len(set(modules)) == len(modules) > 20
    for name in modules:
        importlib.import_module(name)


def test_every_kind_of_bad_event_is_explained() -> None:
    table = TEXT["streams.md"].partition("| kind | the event |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)
    assert {kind for cell in named for kind in cell.strip().split(", ")} == set(BAD_KINDS)


def test_the_configuration_of_the_guide_is_read(tmp_path: Path) -> None:
    (job,) = blocks("running.md", "toml")
    (tmp_path / "job.toml").write_text(job)
    options = _parser().read_config(str(tmp_path / "job.toml"))
    assert options["label"] == "clicked"
    assert ("max_features", "65536") in options["set"]


@pytest.mark.parametrize(
    "page",
    [*sorted(DOCS.glob("benchmarks/*.md")), DOCS.parent / "benchmarks" / "README.md"],
    ids=lambda page: page.stem,
)
def test_links_between_the_benchmarks_pages_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8"))
    assert [one for one in links if "://" not in one and not (page.parent / one).exists()] == []


def test_every_result_is_on_one_page() -> None:
    found = [
        name
        for page in DOCS.glob("benchmarks/*.md")
        for name in re.findall(r"<!-- end of (\w+) -->", page.read_text("utf-8"))
    ]
    results = {path.stem for path in (DOCS.parent / "benchmarks" / "results").glob("*.json")}
    assert sorted(found) == sorted(results)
