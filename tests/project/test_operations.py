"""What is beside the code works: demos, files for operations, workflows, a release by tag."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from argparse import ArgumentTypeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forked_kit
import pytest
import yaml
from cli_kit import click_events, ndjson, streamk
from local_kafka import _topic
from wheel_kit import ROOT, run

from streamk import __version__
from streamk.cli.run import _parser
from streamk.serving.command import _parser as serve_parser

FILES = ROOT / "demos" / "operations"
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
UNITS = sorted(FILES.glob("*.service"))
STARTS = re.compile(r"^ExecStart=/opt/streamk/bin/streamk (\w+) (.*)$", re.MULTILINE)


def test_the_page_names_all_files() -> None:
    names = [path.name for path in FILES.iterdir()]
    assert len(names) == 7
    assert [name for name in names if f"`{name}`" not in PAGE] == []


# --- systemd --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("units are checked by systemd-analyze, which is not here")
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace("/opt/streamk/bin/streamk", sys.executable))
    for other in UNITS:  # one is named by the other
        if other != unit:
            shutil.copy(other, tmp_path)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True
    )
    faults = [line for line in done.stderr.splitlines() if unit.name.partition("@")[0] in line]
    assert not [line for line in faults if "/opt/streamk/bin" not in line]


def test_the_units_start_what_there_is() -> None:
    parsers = {"run": _parser(), "serve": serve_parser()}
    for unit in UNITS:
        ((command, arguments),) = STARTS.findall(unit.read_text())
        given = parsers[command].parse(arguments.replace("%i", "clicks").split())
        assert given
        text = unit.read_text()
        assert "MemoryDenyWriteExecute=yes" not in text
        assert "Restart=on-failure" in text


def test_the_job_is_read() -> None:
    options = _parser().read_config(str(FILES / "clicks.toml"))
    assert options["checkpoint"] == "/var/lib/streamk/clicks"
    assert options["http"] == "127.0.0.1:8000"


# --- the image ------------------------------------------------------------------------------------


def steps() -> list[tuple[str, str]]:
    """The instructions of the Containerfile and what they are given, lines joined."""
    text = (FILES / "Containerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined if line]


def test_the_image_is_of_a_python_that_is_supported_and_runs_the_command() -> None:
    found = steps()
    names = [name for name, _ in found]
    assert set(names) <= {
        *("FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE"),
        *("STOPSIGNAL", "ENTRYPOINT"),
    }
    given = dict(found)
    assert re.search(r"python:3\.1[1-3]-slim$", given["FROM"])
    assert json.loads(given["ENTRYPOINT"]) == ["streamk"]
    assert given["STOPSIGNAL"] == "SIGTERM"
    assert names.index("USER") > names.index("RUN")
    assert given["USER"] != "root"


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_the_image_is_built_from_wheels_without_a_network(tmp_path: Path) -> None:
    """The step that installs, in an environment of its own that knows no index, and the command."""
    (build,) = re.findall(r"^#   (pip wheel .*)$", (FILES / "Containerfile").read_text(), re.M)
    wheels = tmp_path / "wheelhouse"
    make = build.replace("wheelhouse", str(wheels))
    run(sys.executable, "-m", *shlex.split(make), cwd=ROOT)
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    (install,) = (text for name, text in steps() if name == "RUN" and "pip install" in text)
    install = install.replace("/wheelhouse", str(wheels)).replace(
        "python", str(home / "bin/python")
    )
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": "/dev/null"}
    run("bash", "-euc", install, cwd=tmp_path, **nowhere)
    assert not wheels.exists()
    (tmp_path / "events.ndjson").write_bytes(ndjson(click_events(300)))
    learn = "run file:events.ndjson --label clicked --checkpoint state --quiet"
    run(home / "bin" / "streamk", *learn.split(), cwd=tmp_path)
    assert "events" in run(home / "bin" / "streamk", "inspect", "state", cwd=tmp_path)


# --- a broker, a job and a server -----------------------------------------------------------------


def test_compose_starts_what_there_is() -> None:
    """Each command is read by its parser, and each volume and service that is named is there."""
    found = yaml.safe_load((FILES / "compose.yaml").read_text())
    services = found["services"]
    broker = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert broker == "INSIDE://kafka:19092,OUTSIDE://localhost:9092"
    parsers = {"run": _parser(), "serve": serve_parser()}
    ours = [one for one in services.values() if one["image"] == "streamk"]
    for service in ours:
        name, *given = service["command"].split()
        options = parsers[name].parse(given)
        port = options["http"].rpartition(":")[2]
        assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert "STREAMK_TOKEN" in service["environment"]
    assert len(ours) == 2
    volumes = [one for service in services.values() for one in service.get("volumes", ())]
    assert {one.partition(":")[0] for one in volumes} == set(found["volumes"])
    needed = [name for service in services.values() for name in service.get("depends_on", ())]
    assert set(needed) <= set(services)


# --- metrics --------------------------------------------------------------------------------------

NAME = re.compile(r"\bstreamk_\w+\b")


def exported() -> set[str]:
    """Names of all that `/metrics` of a job and of a server have, without a histogram's endings."""
    for package in ("prometheus_client", "starlette"):
        pytest.importorskip(package, reason="pip install streamk[serve]")
    from streamk.serving.application import ServerWatch
    from streamk.serving.monitoring import JobMonitoring

    learner = SimpleNamespace(innermost=SimpleNamespace(TYPE="multi-kernel"))
    model: Any = SimpleNamespace(epoch=1, n_events=2, age=3.0, label="y", learner=learner)
    answers: Any = None
    text = ServerWatch(model, answers).text() + JobMonitoring(lambda: None).text()
    found = re.findall(r"^# TYPE (\w+) (\w+)$", text.decode(), re.MULTILINE)
    return {name for name, _ in found if not name.endswith("_created")}


def named(text: str) -> set[str]:
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in NAME.findall(text)}


def test_the_dashboard_shows_all_metrics_and_no_others() -> None:
    board = json.loads((FILES / "dashboard.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    assert named("\n".join(shown)) == exported()
    chosen = [json.dumps(variable) for variable in board["templating"]["list"]]
    assert named("\n".join(chosen)) <= exported()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for expression in shown:
        assert expression.count("(") == expression.count(")")
        assert expression.count("{") == expression.count("}") == len(NAME.findall(expression))


def test_alerts_are_about_metrics_that_there_are() -> None:
    (group,) = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    rules = group["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert named("\n".join(rule["expr"] for rule in rules)) <= exported()
    for rule in rules:
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert "{{ $labels.instance }}" in rule["annotations"]["summary"]


def test_the_page_tells_what_to_look_at_of_all_metrics() -> None:
    table = PAGE.partition("| metric | look when |")[2].partition("\n\n")[0]
    assert named(table) == exported()


# --- messages -------------------------------------------------------------------------------------


def test_messages_on_the_page_are_those_of_the_code() -> None:
    """Each symptom in code style is text of the package, but for what stands in place of it."""
    table = PAGE.partition("| symptom | cause | do |\n|---|---|---|\n")[2].partition("\n\n")[0]
    symptoms = [row.split(" | ")[0] for row in table.splitlines()]
    told = [text for cell in symptoms for text in re.findall(r"`([^`]+)`", cell)]
    told = [text for text in told if " " in text]
    assert len(told) >= 10
    paths = [*(ROOT / "streamk").rglob("*.py"), *(ROOT / "connectors").rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    code = re.sub(r'"\s*\n\s*f?"', "", code)  # texts that go on in the next line
    pieces = [piece.strip() for text in told for piece in text.split("…") if piece.strip()]
    assert [piece for piece in pieces if piece not in code] == []


def test_a_copy_of_a_checkpoint_is_a_backup(tmp_path: Path) -> None:
    """It can be looked at, and the job goes on from it as it did before."""
    events = click_events(300)
    (tmp_path / "events.ndjson").write_bytes(ndjson(events))
    job = ("run", "file:events.ndjson", "--label", "clicked", "--checkpoint", "state", "--quiet")
    job = (*job, "--model", "doubly-stochastic", "--to", "file:out.ndjson")
    streamk(*job, "--max-events", str(len(events) // 2), cwd=tmp_path)
    shutil.copytree(tmp_path / "state", tmp_path / "backup")
    out, _ = streamk("inspect", "backup", cwd=tmp_path)
    assert str(len(events) // 2) in out

    def ending() -> tuple[bytes, bytes]:
        streamk(*job, cwd=tmp_path)
        newest = max((tmp_path / "state" / "member-0").glob("0*[0-9]"))
        written = (tmp_path / "out.ndjson").read_bytes()
        return (newest / "model.safetensors").read_bytes(), written

    first = ending()
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "backup", tmp_path / "state")
    assert ending() == first


# --- demos ----------------------------------------------------------------------------------------

DEMOS = Path(__file__).parents[2] / "demos"


def demos_run(demo: str, *arguments: str, cwd: Path) -> str:
    done = forked_kit.run(
        [sys.executable, str(DEMOS / demo), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_river_loop(tmp_path: Path) -> None:
    lines = demos_run("river_loop.py", cwd=tmp_path).splitlines()
    assert "Accuracy: " in lines[0]
    # The twin out of a pickle predicts the same, to the last bit.
    assert lines[-2].partition(": {")[2] == lines[-1].partition(" {")[2]


def test_self_expressive(tmp_path: Path) -> None:
    exact, clustered, denoised, drawn = demos_run("self_expressive.py", cwd=tmp_path).splitlines()
    assert exact == "1,000 points of rank 20: exact with 20 landmarks of oasis"
    assert float(clustered.partition(": ")[2].partition("%")[0]) >= 99
    assert float(denoised.partition("codes ")[2].partition("%")[0]) <= 7.5
    picture = tmp_path / drawn.removeprefix("drawn in ")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.kafka
@pytest.mark.slow
def test_kafka_quickstart(tmp_path: Path, kafka_address: str) -> None:
    out = demos_run("kafka_quickstart.py", "--broker", kafka_address, cwd=tmp_path)
    assert "produced 1,250 events" in out
    assert "learned 625 events, 625 in all" in out
    assert "resumed, learned 625 events, 1,250 in all" in out
    assert "read 1,250 predictions back" in out
    assert "1,250 events have one, 0 more than one" in out


@pytest.mark.parametrize(
    ("text", "topic"), [("events", ("events", 1)), ("other:3", ("other", 3)), ("a:0", None)]
)
def test_topics_of_a_local_broker(text: str, topic: tuple[str, int] | None) -> None:
    if topic is None:
        with pytest.raises(ArgumentTypeError, match="NAME:PARTITIONS"):
            _topic(text)
    else:
        assert _topic(text) == topic


# --- workflows ------------------------------------------------------------------------------------


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
notes = runpy.run_path(str(ROOT / ".ci" / "release.py"))["notes"]


def loaded(path: Path) -> Any:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
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
    assert loaded(ROOT / "CITATION.cff")["version"] == __version__
