"""An extra brings what it promises: the wheel with it alone, and each thing that it is for.

This needs the package index, and minutes. What needs a GPU is not tried here.
"""

from __future__ import annotations

import json
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_kit import click_events, ndjson
from wheel_kit import ROOT, Environment, build, run

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DEVELOPERS = {"cuda-compile", "dev", "docs", "test"}
ON_A_GPU = {"cuda12", "cuda13"}
SMALL = ("--model", "doubly-stochastic", "--set", "max_features=64", "--quiet")


class Tried:
    """An environment with an extra, in a directory with events and a checkpoint of them."""

    def __init__(self, clean: Environment, home: Path, request: pytest.FixtureRequest) -> None:
        self._clean, self.home, self._request = clean, home, request
        self.environment: dict[str, str] = {}
        (home / "events.ndjson").write_bytes(ndjson(click_events(300)))

    @property
    def broker(self) -> str:
        """The address of a broker."""
        address: str = self._request.getfixturevalue("kafka_address")
        return address

    def topic(self) -> str:
        """The address of a new topic."""
        return f"kafka://{self.broker}/{self._request.getfixturevalue('kafka_topic')()}"

    def streamk(self, *arguments: str) -> str:
        return self._clean.streamk(*arguments, cwd=self.home, **self.environment)

    def python(self, program: str, *arguments: str) -> str:
        return self._clean.python(program, *arguments, cwd=self.home, **self.environment)

    def learn(
        self, source: str = "file:events.ndjson", *more: str, label: str = "clicked"
    ) -> dict[str, Any]:
        """Learn a stream to its end; return the report."""
        line = ("run", source, "--label", label, "--until-end", "--json", *SMALL, *more)
        report: dict[str, Any] = json.loads(self.streamk(*line).splitlines()[-1])
        return report


CODECS = """
import json, sys
from kafka import KafkaProducer
address, topic, codec = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=address, compression_type=codec, linger_ms=500)
for i in range(300):
    producer.send(topic, json.dumps({"x": i % 2, "clicked": bool(i % 2)}).encode())
producer.close()
"""


def kafka_codecs(tried: Tried) -> None:
    """Each codec of Kafka, written and read by kafka-python."""
    for codec in ("gzip", "lz4", "snappy", "zstd"):
        topic = tried.topic()
        tried.python(CODECS, tried.broker, topic.rpartition("/")[2], codec)
        assert tried.learn(f"{topic}?client=kafka-python")["learned"] == 300


def completion(tried: Tried) -> None:
    """The script of a shell."""
    assert "complete -o default" in tried.streamk("completion", "bash")


def confluent(tried: Tried) -> None:
    """Records written, and read back, by librdkafka."""
    topic = tried.topic()
    assert tried.learn("file:events.ndjson", "--to", f"{topic}?client=confluent")["learned"] == 300
    back = tried.learn(f"{topic}?client=confluent", label="prediction")
    assert back["events"] == 300


def schemas(tried: Tried) -> None:
    """Records of Avro and of Protobuf, written and read."""
    for form in ("avro", "protobuf"):
        framed(form, tried)


def framed(form: str, tried: Tried) -> None:
    """Write predictions in a format, and learn from them."""
    (tried.home / form).mkdir()
    topic, schemas = f"{tried.topic()}?encoding={form}", f"&schemas={form}"
    assert tried.learn("file:events.ndjson", "--to", topic + schemas)["learned"] == 300
    assert len(list((tried.home / form).iterdir())) == 1
    label = "prediction.boolean" if form == "protobuf" else "prediction"
    back = topic if form == "json-schema" else topic + schemas
    assert tried.learn(back, label=label)["learned"] > 290


PARQUET = """
import pyarrow, pyarrow.parquet
table = pyarrow.table({"x": [0, 1] * 150, "clicked": [False, True] * 150})
for codec in ("none", "snappy", "gzip", "brotli", "lz4", "zstd"):
    pyarrow.parquet.write_table(table, f"{codec}.parquet", compression=codec)
"""


def parquet(tried: Tried) -> None:
    """Each codec of Parquet read, and predictions written."""
    tried.python(PARQUET)
    files = sorted(path.name for path in tried.home.glob("*.parquet"))
    assert len(files) == 6
    for file in files:
        assert tried.learn(f"parquet:{file}", "--to", "parquet:out")["learned"] == 300
    assert list((tried.home / "out").glob("*.parquet"))


def object_store(tried: Tried) -> None:
    """Checkpoints in a store of S3."""
    from object_store_kit import s3_server

    with s3_server() as server:
        tried.environment = server.environment
        address = server.address()
        assert tried.learn("file:events.ndjson", "--checkpoint", address)["learned"] == 300
        assert "300" in tried.streamk("inspect", address)


def onnx(tried: Tried) -> None:
    """A model written as ONNX."""
    tried.learn("file:events.ndjson", "--checkpoint", "state")
    to = ("--to", "model.safetensors", "--onnx", "model.onnx")
    tried.streamk("compile", "state", "file:events.ndjson", *to)
    tried.python("import onnx; onnx.checker.check_model('model.onnx')")


def plot(tried: Tried) -> None:
    """A picture of a run."""
    tried.learn("file:events.ndjson", "--checkpoint", "state")
    for kind in ("png", "svg"):
        tried.streamk("plot", "state", "--to", f"run.{kind}")
        assert (tried.home / f"run.{kind}").stat().st_size


SERVED = r"""
import json, re, subprocess, sys, urllib.request
command = [sys.executable, "-m", "streamk", "serve", "state", "--http", ":0"]
server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
address = re.search(r"http://\S+", server.stderr.readline())[0]
event = json.dumps({"age": 31, "device": "phone"}).encode()
asked = urllib.request.Request(
    f"{address}/predict", event, {"Content-Type": "application/json"}
)
assert "prediction" in json.load(urllib.request.urlopen(asked))
assert b"streamk_" in urllib.request.urlopen(f"{address}/metrics").read()
server.terminate()
"""
WATCHED = r"""
import re, subprocess, sys, urllib.request
command = [sys.executable, "-m", "streamk", "run", "file:events.ndjson?follow=true"]
command += ["--label", "clicked", "--http", ":0", "--model", "doubly-stochastic"]
job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
for line in job.stderr:
    found = re.search(r'http://[^\s"]+', line)
    if found:
        break
assert b"<html" in urllib.request.urlopen(found[0].rstrip("/") + "/").read()
job.terminate()
"""


def serve(tried: Tried) -> None:
    """Predictions over HTTP, figures for Prometheus, and the page of a job."""
    tried.learn("file:events.ndjson", "--checkpoint", "state")
    tried.python(SERVED)
    tried.python(WATCHED)


def ray(tried: Tried) -> None:
    """Workers of a job."""
    tried.environment = {"RAY_USAGE_STATS_ENABLED": "0"}
    report = tried.learn("file:events.ndjson", "--workers", "1", "--shards", "1", "--ray", "local")
    assert report["learned"] == 300


SKLEARN = """
import numpy as np
from streamk.adapters.sklearn import KMeansNystroem, KernelClassifier
X = np.random.default_rng(0).normal(size=(200, 3))
KernelClassifier().fit(X, X[:, 0] > 0).predict(X)
KMeansNystroem(n_components=8).fit_transform(X)
"""


def sklearn(tried: Tried) -> None:
    """An estimator; all of them, and landmarks, take scikit-learn alone."""
    tried.python(SKLEARN)


MLFLOW = """
import streamk.mlflow
streamk.mlflow.save_model("state", "model")
assert streamk.mlflow.load_model("model").predict_one({"age": 31}) is not None
"""


def mlflow(tried: Tried) -> None:
    """A model that MLflow keeps."""
    tried.learn("file:events.ndjson", "--checkpoint", "state")
    tried.python(MLFLOW)


KINDS = (completion, confluent, kafka_codecs, mlflow, object_store, onnx, parquet, plot, ray)
PROMISES: dict[str, Callable[[Tried], None]] = {
    kind.__name__.replace("_", "-"): kind for kind in (*KINDS, schemas, serve, sklearn)
}


def test_every_extra_is_tried_and_told() -> None:
    assert {*PROMISES, *ON_A_GPU, *DEVELOPERS} == set(EXTRAS)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [name for name in {*PROMISES, *ON_A_GPU} if f"`{name}`" not in readme]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Environment]:
    """The wheel, and an environment with nothing but what it asks for."""
    wheel = build(tmp_path_factory.mktemp("dist"))
    return wheel, Environment(tmp_path_factory.mktemp("base") / "venv", wheel)


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", PROMISES)
def test_it_brings_what_it_promises(
    extra: str, plain: tuple[Path, Environment], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    wheel, base = plain
    clean = Environment(tmp_path / "venv", wheel, extra, base)
    home = tmp_path / "home"
    home.mkdir()
    PROMISES[extra](Tried(clean, home, request))


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_json_schema_needs_no_extra(
    plain: tuple[Path, Environment], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    framed("json-schema", Tried(plain[1], tmp_path, request))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_guide_builds_without_warnings(tmp_path: Path) -> None:
    home, pages = tmp_path / "venv", tmp_path / "docs"
    venv.create(home, with_pip=True)
    run(home / "bin" / "pip", "install", "--quiet", "-e", f"{ROOT}[docs]", cwd=tmp_path)
    run(home / "bin" / "sphinx-build", "-q", "-W", "docs", pages, cwd=ROOT)
    assert (pages / "methods.html").is_file()
