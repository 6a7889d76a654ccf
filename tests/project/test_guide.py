"""README.md, the start and the tutorial, followed as a reader follows them.

The commands and the Python blocks of a part run in the order of the page, in one directory. A
`text` block right after one of them is what that printed, but for the figures.

Of README.md all console commands but three run as they stand: the two for a fresh machine would
make an environment each (`.ci/run` runs one of them as it stands, tests/project/test_wheel.py does
what the other does), and those for Kafka need a broker's address.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_kit import click_events, ndjson
from cli_kit import streamk as command_line
from crash_kit import read_all
from kafka_kit import producer, read
from test_docs import DOCS, PROJECT, README, fenced
from wheel_kit import ROOT

import streamk
from connectors.kafka import KafkaSource

N_EVENTS = 300


def commands() -> list[str]:
    lines = [line for block in fenced(README, "console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines), "a console block holds commands only"
    return [line.removeprefix("$ ") for line in lines]


COMMANDS = commands()
FRESH = [command for command in COMMANDS if command.startswith("python3 -m venv ")]
BROKER = [command for command in COMMANDS if "local_kafka.py" in command]
KAFKA = [command for command in COMMANDS if "kafka://" in command]
PLAIN = [command for command in COMMANDS if command not in [*FRESH, *BROKER, *KAFKA]]


def environment() -> dict[str, str]:
    """The environment with this Python's programs first on the path, as when activated."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {**os.environ, "PATH": os.pathsep.join(folders)}


def start(command: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def run(command: str, directory: Path) -> str:
    """Run a command as it stands; return what it prints. `streamk` runs in this process."""
    words = shlex.split(command)
    if words[0] == "streamk" and ">" not in words:
        return command_line(*words[1:], cwd=directory)[0]
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_there_is_something_to_test() -> None:
    assert len(FRESH) == 2
    assert min(map(len, (BROKER, KAFKA, PLAIN))) > 0
    # The quick start for Kafka starts it so.
    assert {one.partition(" --topic ")[0] for one in BROKER} == {"python demos/local_kafka.py"}


@pytest.mark.parametrize("command", FRESH)
def test_a_fresh_machine_needs_python_only(command: str) -> None:
    venv, install, program = map(shlex.split, command.split(" && "))
    assert venv == ["python3", "-m", "venv", ".venv"]
    assert install[:2] == [".venv/bin/pip", "install"]

    target = install[-1]
    extras = re.findall(r"\w[\w-]*", target.partition("[")[2])
    assert target.partition("[")[0] == ".", "the project is installed from this directory"
    assert set(extras) <= PROJECT["optional-dependencies"].keys()

    name = program[0].removeprefix(".venv/bin/")
    required = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    assert name in PROJECT["scripts"] or any(re.match(rf"{name}\b", line) for line in required), (
        f"{name} is not installed by {shlex.join(install)}"
    )


def test_plain_commands_run_in_order(tmp_path: Path) -> None:
    events = click_events(N_EVENTS)
    (tmp_path / "events.ndjson").write_bytes(ndjson(events))
    shown = [
        {**event, "ad": n, "at": 60_000 * n, "clicked": None} for n, event in enumerate(events)
    ]
    clicks = [
        {"ad": n, "at": 60_000 * n + 90_000, "clicked": True}
        for n, event in enumerate(events)
        if event["clicked"]
    ]
    for name, records in (("shown", shown), ("clicks", clicks)):
        (tmp_path / f"{name}.ndjson").write_bytes(ndjson(records))
    for command in PLAIN:
        run(command, tmp_path)
    predictions = (tmp_path / "predictions.ndjson").read_text()
    assert len(predictions.splitlines()) == N_EVENTS

    # "Run again, the command goes on where it stopped": here at the end of the file.
    (again,) = (command for command in PLAIN if "--checkpoint" in command)
    run(again, tmp_path)
    assert (tmp_path / "predictions.ndjson").read_text() == predictions


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("command", KAFKA)
def test_kafka_commands_run_until_stopped(
    command: str, tmp_path: Path, kafka_address: str, kafka_topic: Callable[..., str]
) -> None:
    inputs, outputs = kafka_topic(), kafka_topic()
    with producer(kafka_address) as out:
        for event in click_events(N_EVENTS):
            out.send(inputs, json.dumps(event).encode())

    command = command.replace("localhost:9092/events", f"{kafka_address}/{inputs}")
    command = command.replace("localhost:9092/predictions", f"{kafka_address}/{outputs}")
    process = start(command, tmp_path)
    try:
        with closing(KafkaSource((kafka_address,), outputs)) as source:
            read(source, N_EVENTS)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, output
    records = list(read_all(kafka_address, outputs))
    assert len(records) == N_EVENTS, output
    assert all(record.headers for record in records)
    run("streamk inspect state", tmp_path)


# --- the guide ------------------------------------------------------------------------------------

FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
TOPIC = re.compile(r"kafka://localhost:9092/([\w-]+)")
PART = re.compile(r"^## ", flags=re.MULTILINE)


def part(page: str, heading: str = "") -> str:
    """Return a page, or what stands under one of its headings."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if heading:
        (text,) = (one for one in PART.split(text) if one.startswith(f"{heading}\n"))
    return text


def shape(text: str) -> list[str]:
    """Return the words of each line without its figures: these differ between machines."""
    figure = r"[-+]?[\d.,]*\d%?|\bTrue\b|\bFalse\b|[▁-█]+"
    lines = (re.sub(figure, "#", line) for line in text.splitlines())
    return sorted(" ".join(line.split()) for line in lines if line.strip())


def accuracies(text: str) -> list[float]:
    """Return the figures of the lines that tell an accuracy."""
    lines = [line for line in text.lower().splitlines() if line.lstrip().startswith("accuracy")]
    return [float(figure) for line in lines for figure in re.findall(r"\d+\.\d+", line)]


def follow(text: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run what the text says, in order, and compare what is printed."""
    monkeypatch.chdir(directory)
    names: dict[str, Any] = {"__name__": "guide"}
    printed = None
    blocks = FENCED.findall(text)
    assert {language for language, _ in blocks} <= {"console", "python", "py", "text", "c"}
    for language, block in blocks:
        if language == "console":
            assert all(line.startswith("$ ") for line in block.splitlines())
            printed = "".join(run(line[2:], directory) for line in block.splitlines())
        elif language == "c":
            (directory / "main.c").write_text(block)
        elif language in ("python", "py"):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(block, "guide", "exec"), names)
            printed = output.getvalue()
        elif printed is not None:
            assert shape(block) == shape(printed), printed
            assert accuracies(block) == pytest.approx(accuracies(printed), rel=0.05)
            printed = None


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(part("tutorial.md"), tmp_path, monkeypatch)


@pytest.mark.slow
def test_features_from_raw_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is served is what the page says, with one difference: the port."""
    before, served = part("raw_events.md").split("## Serve it\n")
    follow(before, tmp_path, monkeypatch)
    (asks,), (answer,) = fenced(served, "sh"), fenced(served, "json")
    serve, ask = asks.splitlines()
    process = start(f"{serve} --http 127.0.0.1:0", tmp_path)
    try:
        address = next(filter(None, (re.search(r"http://(\S+)", one) for one in process.stdout)))
        found = json.loads(run(ask.replace("localhost:8000", address[1]), tmp_path))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert found["prediction"] is json.loads(answer)["prediction"]
    assert found["probabilities"] == pytest.approx(json.loads(answer)["probabilities"], abs=0.05)
    follow(served.partition("## Forget one\n")[2], tmp_path, monkeypatch)


@pytest.mark.slow
def test_the_label_of_a_later_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(part("late_labels.md", "The label of a later event"), tmp_path, monkeypatch)


@pytest.mark.slow
def test_the_quick_start_for_river(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(part("quickstart.md", "If you use River"), tmp_path, monkeypatch)


@pytest.mark.slow
def test_the_quick_start_for_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(part("quickstart.md", "If you have arrays"), tmp_path, monkeypatch)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_first_thirty_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(part("quickstart.md", "Thirty seconds"), tmp_path, monkeypatch)
    picture = tmp_path / "streamk-demo" / "accuracy.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.nightly
@pytest.mark.slow
def test_a_measurement_and_all_figures_are_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The benchmarks write beside themselves. Each figure is on a page."""
    text = part("benchmarks/index.md", "Repeat a measurement or a figure")
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    follow(text, tmp_path, monkeypatch)
    assert json.loads((tmp_path / "phishing.json").read_text())["benchmark"] == "river_battery"
    drawn = {path.name for path in (tmp_path / "docs" / "figures").iterdir()}
    pages = [page.read_text(encoding="utf-8") for page in DOCS.glob("benchmarks/*.md")]
    shown = set(re.findall(r"\(../figures/(\w+\.png)\)", "".join(pages)))
    assert drawn == shown == {path.name for path in (DOCS / "figures").iterdir()}


def test_a_model_is_served_without_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("cc") is None:
        pytest.skip("the guide compiles a header where there is a C compiler (cc)")
    pytest.importorskip("onnx", reason="the guide writes ONNX: pip install 'streamk[onnx]'")
    pytest.importorskip("onnxruntime", reason="the guide runs ONNX by onnxruntime")
    follow(part("fast_prediction.md", "Serve it without Python"), tmp_path, monkeypatch)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("local_kafka")
def test_the_quick_start_for_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = part("quickstart.md", "If you run Kafka")
    block = next(block for language, block in FENCED.findall(text) if language == "console")
    broker = start(block.strip().removeprefix("$ "), ROOT)
    try:
        address = re.search(r"127\.0\.0\.1:\d+", broker.stdout.readline())
        rest = text.partition(block)[2].partition("```\n")[2]
        follow(rest.replace("localhost:9092", address[0]), tmp_path, monkeypatch)
    finally:
        broker.send_signal(signal.SIGINT)
        output, _ = broker.communicate(timeout=60)
    assert broker.returncode == 0, output
    predict = streamk.load(tmp_path / "state")
    assert predict.n_events == 1_500


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the files that the pages' commands read."""
    home = tmp_path_factory.mktemp("prepared")
    events = click_events(N_EVENTS)
    (home / "events.ndjson").write_bytes(ndjson(events))
    (home / "requests.ndjson").write_bytes(ndjson(events[:20]))
    rows = [",".join(events[0]), *(",".join(map(str, event.values())) for event in events)]
    (home / "history.csv").write_text("\n".join(rows).lower() + "\n")
    mails = [{"words": n % 7, "folder": ["spam", "work"][n % 2]} for n in range(40)]
    (home / "mails.ndjson").write_bytes(ndjson(mails))
    prices = ["size,price", *(f"{n % 9},{n % 9 * 3 + 1}" for n in range(40))]
    (home / "prices.csv").write_text("\n".join(prices) + "\n")
    learn = "streamk run file:events.ndjson --label clicked --checkpoint state --quiet"
    run(learn, home)
    return home


OTHERS = ("quickstart.md", "resume.md", "watch.md")
"""Pages whose commands are run nightly: of the start those of its last part."""


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "streams.md",
        "serving.md",
        *(pytest.param(page, marks=pytest.mark.nightly) for page in OTHERS),
    ],
)
def test_commands_of_the_pages(
    page: str, prepared: Path, tmp_path: Path, kafka_address: str, kafka_topic: Callable[..., str]
) -> None:
    """Each console block runs as it stands, but that live sources end: `--until-end`."""
    topics: dict[str, str] = {}

    def here(address: re.Match[str]) -> str:
        if address[1] not in topics:
            topics[address[1]] = kafka_topic()
        return f"kafka://{kafka_address}/{topics[address[1]]}"

    heading = "A job in a file" if page == "quickstart.md" else ""
    blocks = FENCED.findall(part(page, heading))
    job = "".join(block for language, block in blocks if language == "toml" and "source" in block)
    consoles = [block for language, block in blocks if language == "console"]
    assert consoles
    for number, block in enumerate(consoles):
        home = tmp_path / str(number)
        shutil.copytree(prepared, home)
        if "--checkpoint state" in block:
            shutil.rmtree(home / "state")  # the block makes one
        (home / "clicks.toml").write_text(TOPIC.sub(here, job).replace("/var/lib/streamk/", ""))
        for line in TOPIC.sub(here, block).splitlines():
            live = "kafka://" in line or "clicks.toml" in line
            run(line.removeprefix("$ ") + " --until-end" * live, home)


NEEDS = {
    "gpu.md": (" --set backend=cupy", ""),  # a GPU
    "data.md": ("river:Elec2", "river:Phishing"),  # the network
}


@pytest.mark.slow
@pytest.mark.parametrize("page", NEEDS)
def test_commands_of_pages_for_other_machines(page: str, prepared: Path, tmp_path: Path) -> None:
    """As they stand but for what this machine may lack; of those that are streamk's."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    text = part(page)
    assert NEEDS[page][0] in text
    commands = re.findall(r"^\$ (streamk .*)$", text, flags=re.MULTILINE)
    assert commands
    for line in commands:
        run(line.replace(*NEEDS[page]), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_commands_about_models(every: int, prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    commands = re.findall(r"^\$ (streamk .*)$", part("models.md"), flags=re.MULTILINE)
    assert len(commands) >= 3
    for line in commands[::every]:
        assert " features" in run(line, tmp_path)
