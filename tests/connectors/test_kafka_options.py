"""Addresses, options, credentials and the choice of a client for Kafka: no broker needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connectors.base import URL
from connectors.errors import BadURL, Unavailable
from connectors.kafka import KafkaSink, KafkaSource
from connectors.kafka import client as clients
from connectors.kafka.cluster import Cluster
from connectors.kafka.security import Secret, Security
from connectors.kafka.sink import TopicLog
from connectors.registry import open_source


@pytest.mark.parametrize(
    ("host", "path", "complaint"),
    [
        ("", "t", "no host"),
        ("h:99999", "t", "not HOST:PORT"),
        ("h:x", "t", "not HOST:PORT"),
        ("h:1", "", "not a topic name"),
        ("h:1", "a/b", "not a topic name"),
    ],
)
def test_bad_addresses(host: str, path: str, complaint: str) -> None:
    with pytest.raises(BadURL, match=complaint):
        Cluster.parse(URL(f"kafka://{host}/{path}", "kafka", host, path))


def test_addresses() -> None:
    assert Cluster.parse(URL("", "kafka", "a,b:1", "t")) == (("a:9092", "b:1"), "t")


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "xml"},
        {"isolation_level": "none"},
        {"group_instance_id": "a"},
        {"group_protocol": "consumer"},
        {"group": "g", "group_protocol": "other"},
        {"group": "g", "group_protocol": "consumer", "group_instance_id": "a"},
        {"group": "g", "group_protocol": "consumer", "session_timeout": 10.0},
        {"group": "g", "group_protocol": "consumer", "client": "kafka-python"},
    ],
)
def test_bad_options(options: dict[str, Any]) -> None:
    """The message names the one that is wrong."""
    with pytest.raises(BadURL, match=list(options)[-1]):
        KafkaSource(("localhost:1",), "t", security=Security(), **options)


@pytest.mark.parametrize("kind", [KafkaSink, TopicLog])
def test_unknown_options_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match="timeout_of_connections"):
        kind(("127.0.0.1:1",), "t", timeout_of_connections=1.0)


def test_security_files(tmp_path: Path) -> None:
    toml = tmp_path / "kafka.toml"
    toml.write_text(
        '[kafka]\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "SCRAM-SHA-512"\n'
        'sasl_plain_username = "ada"\nsasl_plain_password = "pw-1"\nssl_check_hostname = false\n'
    )
    properties = tmp_path / "client.properties"
    properties.write_text(
        "# as librdkafka's clients have it\nsecurity.protocol=SASL_SSL\n"
        "sasl.mechanisms: SCRAM-SHA-512\nsasl.username = ada\nsasl.password=pw-1\n"
        "ssl.check.hostname=false\n"
    )
    expected = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ada",
        "sasl_plain_password": Secret("pw-1"),
        "ssl_check_hostname": False,
    }
    for file in (toml, properties):
        security = Security.load(file, environment={})
        assert security.options == expected
        assert "pw-1" not in repr(security) + str(security) + f"{security.options}"
        assert security.redact("got pw-1!") == "got ***!"
    changed = Security.load(toml, environment={"STREAMK_KAFKA_SASL_PLAIN_PASSWORD": "pw-2"})
    assert changed.options["sasl_plain_password"] == "pw-2"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sasl.pasword=hunter2", "pasword.* is not a Kafka security option"),
        ("security.protocol=hunter2", "security_protocol"),
        ("hunter2", "line 1: expected"),
        ("sasl.password=hunter2", "sends no credentials"),
        ("security.protocol=SASL_SSL\nsasl.password=hunter2", "needs sasl_mechanism"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "needs sasl_plain_password"),
        ("ssl.key.password=hunter2", "does not encrypt"),
        ("security.protocol=SSL\nssl.check.hostname=hunter2", "must be true or false"),
    ],
)
def test_bad_security_options_are_refused_without_values(
    text: str, complaint: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.properties"
    file.write_text(text)
    with pytest.raises(BadURL, match=complaint) as error:
        Security.load(file, environment={})
    if "protocol=hunter2" not in text:
        assert "hunter2" not in str(error.value)


def test_a_security_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"none\.toml cannot be read: No such file"):
        Security.load(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("= hunter2")
    with pytest.raises(BadURL, match="not valid TOML") as error:
        Security.load(bad)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("name", ["librdkafka", "Confluent", "kafka"])
def test_a_client_that_is_not_known(name: str) -> None:
    with pytest.raises(BadURL, match="must be confluent or kafka-python"):
        open_source(f"kafka://localhost:1/t?client={name}")


def test_a_client_that_is_not_installed_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    from connectors.kafka.python_client import PythonClient

    for found in ((), (2, 14, 2)):
        monkeypatch.setattr(clients, "_version", lambda _, found=found: found)
        with pytest.raises(Unavailable, match=r"confluent-kafka 2\.15 .*streamk\[confluent\]"):
            open_source("kafka://localhost:1/t?client=confluent")
        assert isinstance(clients.choose(), PythonClient)


def test_confluent_is_chosen_where_it_is_installed() -> None:
    pytest.importorskip("confluent_kafka", reason="the extra `confluent` is not installed")
    assert type(clients.choose()).__name__ == "ConfluentClient"
    assert type(clients.choose("kafka-python")).__name__ == "PythonClient"


def test_security_options_as_librdkafka_has_them() -> None:
    options = {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_MECHANISM": "PLAIN",
        "SASL_PLAIN_USERNAME": "ada",
        "SASL_PLAIN_PASSWORD": "pw-1",
        "SSL_CAFILE": "/ca.pem",
        "SSL_CHECK_HOSTNAME": "false",
    }
    environment = {f"STREAMK_KAFKA_{name}": value for name, value in options.items()}
    settings = Security.load(environment=environment).librdkafka()
    assert settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": "pw-1",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert f"{settings['sasl.password']}" == "pw-1"  # plain text, not a `Secret` that hides
    with pytest.raises(BadURL, match="sasl_kerberos_domain_name"):
        Security({"sasl_kerberos_domain_name": "x"}).librdkafka()
