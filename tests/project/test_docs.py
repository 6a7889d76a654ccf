"""The pages are true: their links lead somewhere, and what they name exists.

Blocks marked `python` run as they stand; those marked `py` need a broker or the network. Pages that
are followed from top to bottom, and commands, are in tests/project/test_guide.py.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from test_architecture import MODULES, tree
from wheel_kit import ROOT

from connectors.registry import schemes
from streamk.adapters import river, sklearn
from streamk.cli import compile as compiling
from streamk.cli import predict
from streamk.cli.init import command as init
from streamk.cli.run import _parser
from streamk.encoding import BAD_KINDS
from streamk.serving import command as serve

DOCS = ROOT / "docs"
TEXT = {page.name: page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))}
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "benchmarks/README")),
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("benchmarks/*.md")),
]
"""All whose links are looked at."""


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    return fenced(TEXT[page], language)


FOLLOWED = ("quickstart.md", "tutorial.md", "raw_events.md")
"""Pages that are run from top to bottom, by tests/project/test_guide.py."""
EXAMPLES = [
    (page, block) for page in TEXT if page not in FOLLOWED for block in blocks(page, "python")
]
EXAMPLES += [("README.md", block) for block in fenced(README, "python")]


def test_the_guide_has_its_pages() -> None:
    assert TEXT.keys() == {
        *("index.md", "streams.md", "resume.md", "models.md", "gpu.md", "data.md", "methods.md"),
        *("watch.md", "serving.md", "words.md"),
        *("additions.md", "fast_prediction.md", "scale_out.md", "late_labels.md", "operations.md"),
        *FOLLOWED,
    }
    contents = (DOCS / "contents.rst").read_text(encoding="utf-8").split()
    assert {page.removesuffix(".md") for page in TEXT} <= set(contents)
    linked = set(re.findall(r"\]\((\w+\.md)\)", TEXT["index.md"]))
    assert linked == TEXT.keys() - {"index.md"}
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize(
    ("page", "source"),
    [
        pytest.param(
            *example,
            id=f"{example[0]}-{n}",
            # Those compile a model, which tests of exports do every day.
            marks=pytest.mark.nightly if example[0] == "fast_prediction.md" else (),
        )
        for n, example in enumerate(EXAMPLES)
    ],
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_files_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    missing = [one for one in links if "://" not in one and not (page.parent / one).exists()]
    demos = re.findall(r"demos/\w+\.py", text) if page.parent == DOCS else []
    assert missing + [demo for demo in demos if not (ROOT / demo).exists()] == []


def test_extras_exist() -> None:
    named = re.findall(r"^\| `([\w-]+)` \|", README, flags=re.MULTILINE)
    assert named
    assert set(named) <= PROJECT["optional-dependencies"].keys()


@cache
def flags() -> set[str]:
    parsers = _parser(), init._parser(), predict._parser(), compiling._parser(), serve._parser()
    actions = [action for parser in parsers for action in parser._actions]
    known = {name for action in actions for name in action.option_strings}
    return known | {"--data", "--schema", "--topic"}


@pytest.mark.parametrize("page", TEXT)
def test_options_and_addresses_exist(page: str) -> None:
    # What is printed, and programs that are not ours, may have others.
    foreign = r"\$ python|ray|useradd|systemctl|pip|podman|/opt/streamk/bin/pip"
    text = re.sub(rf"^```text\n.*?^```$|^({foreign}) [^\n]*$", "", TEXT[page], flags=re.M | re.S)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= flags()
    addresses = set(re.findall(r"[`\"\s](\w+):(?://|[A-Z]{2,}|\w+\.\w+)", text))
    assert addresses <= {*schemes(), "s3", "http"}  # where checkpoints and schemas may lie


def test_the_modules_of_the_reference_are_there() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.rst")]
    modules = [name for page in pages for name in re.findall(r"automodule:: (\S+)", page)]
    assert len(set(modules)) == len(modules) > 20
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            assert "pip install capymoa" in str(error)  # noqa: PT017 - which is not installed for it


def test_every_kind_of_bad_event_is_explained() -> None:
    table = TEXT["streams.md"].partition("| kind | the event |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)
    assert {kind for cell in named for kind in cell.strip().split(", ")} == set(BAD_KINDS)


def test_the_configuration_of_the_guide_is_read(tmp_path: Path) -> None:
    (job,) = blocks("quickstart.md", "toml")
    (tmp_path / "job.toml").write_text(job)
    options = _parser().read_config(str(tmp_path / "job.toml"))
    assert options["label"] == "clicked"
    assert ("max_features", "65536") in options["set"]


def test_every_result_is_on_one_page() -> None:
    found = [
        name
        for page in DOCS.glob("benchmarks/*.md")
        for name in re.findall(r"<!-- end of (\w+) -->", page.read_text("utf-8"))
    ]
    results = {path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    assert sorted(found) == sorted(results)


def test_every_page_with_commands_is_run() -> None:
    pages = {page for page, text in TEXT.items() if "```console" in text}
    assert pages == {
        *(*FOLLOWED, "streams.md", "serving.md", "fast_prediction.md", "models.md"),
        *("resume.md", "watch.md", "gpu.md", "data.md", "late_labels.md"),
    }


def test_the_citation_has_the_license_and_the_papers_of_the_guide() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^license: (.*)$", text, re.MULTILINE) == [PROJECT["license"]]
    titles = re.findall(r'^    title: "?(.*?)"?$', text, re.MULTILINE)
    assert len(titles) == 3
    cited = " ".join(TEXT["methods.md"].partition("## To cite")[2].split())
    assert all(f"*{title}*" in cited for title in titles)


# --- SECURITY.md ----------------------------------------------------------------------------------

SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def named_tests() -> list[tuple[str, str]]:
    """Files, and tests in them; those that follow `::` alone are in the file before."""
    found, file = [], ""
    for path, name in re.findall(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", SECURITY):
        file = path or file
        if path or name:
            found.append((file, name))
    return found


def test_many_are_named_tests() -> None:
    assert len(named_tests()) > 15


@pytest.mark.parametrize(("file", "name"), named_tests())
def test_the_tests_that_are_named_are_there(file: str, name: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {name}(" in source if name else "def test_" in source


def test_rows_of_promises_name_a_test_or_say_where_it_is() -> None:
    assert len(named_tests()) > 15
    rows = re.findall(r"^\| (?!promised|-)(.*?) \| ?(.*)\|$", SECURITY, flags=re.MULTILINE)
    assert len(rows) > 10
    for promise, test in rows:
        assert "tests/" in test or "see above" in promise


# --- words ----------------------------------------------------------------------------------------

TERMS = [row.split("|")[2] for row in TEXT["words.md"].splitlines() if row.startswith("| ")]
"""The middle column."""
NAMED = set(re.findall(r"`([A-Za-z_]\w*)", " ".join(TERMS)))

FORMER = re.compile(
    r"(_|^)(guests?|keeper|rouse|doze|opinions?|opine|hand_out|take_back|recollection|loudness"
    r"|believe|steady_?scale|crew|of_coordinates|lookout|heirs?|strangers|verdict)(_|$)",
    re.IGNORECASE,
)
"""Words that are not the field's, as parts of names."""


def defined(module: str) -> set[str]:
    """Names of functions, classes, parameters and attributes that a module defines."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.arg():
                found.add(node.arg)
            case ast.Attribute(ctx=ast.Store()):
                found.add(node.attr)
    return found


def test_no_name_has_a_former_word() -> None:
    faults = [
        f"{module}: {name}"
        for module in MODULES
        for name in defined(module)
        if FORMER.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))
    ]
    assert not faults, "\n".join(faults)


def test_a_text_begins_with_a_noun_or_a_verb_for_its_thing() -> None:
    asks = "Whether|How|Where|When|Why|What|Who|Whoever|Whose|Which|Whatever|By which"
    clause = re.compile(rf'^ *r?"""({asks}|Let) ', re.MULTILINE)
    faults = [
        f"{path.relative_to(ROOT)}: {found.group().strip()}"
        for path in MODULES.values()
        for found in clause.finditer(path.read_text())
    ]
    assert not faults, "\n".join(faults)


def test_the_glossary_has_only_names_that_there_are() -> None:
    words = {word for path in MODULES.values() for word in re.findall(r"\w+", path.read_text())}
    assert sorted(NAMED - words) == []
