"""TLS with a real broker: it connects as it should, and what fails says which option to change."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certificates
import pytest
from kafka_kit import read, values

from connectors.base import Output
from connectors.errors import Unavailable
from connectors.kafka import KafkaSink, KafkaSource
from connectors.kafka.security import Security, context, diagnose

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("kafka_client", "tls_files")]
ENDS = [KafkaSource, KafkaSink]


def security(protocol: str = "SSL", **options: Any) -> Security:
    every = {"security_protocol": protocol, **options}
    return Security.load(
        environment={f"STREAMK_KAFKA_{key.upper()}": str(value) for key, value in every.items()}
    )


LOGIN = {
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "ada",
    "sasl_plain_password": "correct horse battery staple",
}


def there_and_back(address: str, topic: str, how: Security, records: int = 1) -> None:
    """Write a record, and read as many as there are by then."""
    sink = KafkaSink((address,), topic, security=how)
    sink.write([Output("a:0", 0, 0, None, {"p": 1})])
    sink.close()
    with contextlib.closing(KafkaSource((address,), topic, security=how)) as source:
        assert values(read(source, records)) == [b'{"p":1}'] * records


def refusal(end: Any, address: str, how: Security) -> str:
    """What an end says that cannot connect."""
    with pytest.raises(Unavailable) as error:
        end((address,), "t", connect_timeout=0.5, security=how)
    text = str(error.value)
    assert "no Kafka broker answered" not in text
    assert certificates.PASSWORD not in text
    return text


def test_it_connects(
    kafka_client: str, local_kafka: Any, tls_files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the authority is known, with a certificate of its own, and with any name."""
    topic, known = f"tls-{kafka_client}", {"ssl_cafile": tls_files / "ca.pem"}
    local_kafka.create_topic(topic)
    there_and_back(local_kafka.tls_address, topic, security(**known))
    by_name = local_kafka.tls_address.replace("127.0.0.1", "localhost")
    there_and_back(by_name, topic, security(**known, ssl_check_hostname="false"), records=2)
    how = security(
        **known,
        ssl_certfile=tls_files / "client.pem",
        ssl_keyfile=tls_files / "client.key",
        ssl_password=certificates.PASSWORD,
    )
    with caplog.at_level("DEBUG"):
        there_and_back(local_kafka.mutual_tls_address, topic, how, records=3)
    assert certificates.PASSWORD not in caplog.text + repr(how)


@pytest.mark.parametrize("end", ENDS)
def test_a_certificate_of_another_authority(end: Any, local_kafka: Any, tls_files: Path) -> None:
    address, other = local_kafka.tls_address, tls_files / "other.pem"
    told = refusal(end, address, security(ssl_cafile=other))
    assert f"Kafka at {address} showed a certificate that was not signed by {other}" in told
    assert "Set ssl_cafile to the certificate of the authority" in told


def test_a_certificate_of_no_authority_of_the_system(local_kafka: Any) -> None:
    told = refusal(KafkaSource, local_kafka.tls_address, security())
    assert "not signed by any authority that this system knows" in told
    assert "Set ssl_cafile" in told


@pytest.mark.parametrize("end", ENDS)
def test_a_certificate_for_another_name(end: Any, local_kafka: Any, tls_files: Path) -> None:
    address = local_kafka.tls_address.replace("127.0.0.1", "localhost")
    told = refusal(end, address, security(ssl_cafile=tls_files / "ca.pem"))
    assert f"Kafka at {address} showed a certificate for another name" in told
    assert "not valid for 'localhost'" in told
    assert "Use an address that it is made for" in told
    assert "ssl_check_hostname" in told


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("how", "fix"),
    [
        (Security(), "Set security_protocol to SSL, and ssl_cafile"),
        (security("SASL_PLAINTEXT", **LOGIN), "Set security_protocol to SASL_SSL, and ssl_cafile"),
    ],
    ids=["PLAINTEXT", "SASL_PLAINTEXT"],
)
def test_plain_text_to_a_port_with_tls(end: Any, how: Security, fix: str, local_kafka: Any) -> None:
    told = refusal(end, local_kafka.tls_address, how)
    assert f"Kafka at {local_kafka.tls_address} speaks TLS, and security_protocol is" in told
    assert fix in told


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("login", [False, True])
def test_tls_to_a_port_without(end: Any, login: bool, local_kafka: Any, tls_files: Path) -> None:
    address = local_kafka.sasl_address if login else local_kafka.address
    protocol, options = ("SASL_SSL", LOGIN) if login else ("SSL", {})
    told = refusal(end, address, security(protocol, ssl_cafile=tls_files / "ca.pem", **options))
    assert f"Kafka at {address} does not speak TLS, and security_protocol is {protocol}" in told
    assert f"set security_protocol to {'SASL_PLAINTEXT' if login else 'PLAINTEXT'}" in told


@pytest.mark.parametrize("end", ENDS)
def test_a_broker_that_asks_for_a_certificate(end: Any, local_kafka: Any, tls_files: Path) -> None:
    address, known = local_kafka.mutual_tls_address, {"ssl_cafile": tls_files / "ca.pem"}
    told = refusal(end, address, security(**known))
    assert f"Kafka at {address} ended the TLS handshake" in told
    assert "Set ssl_certfile and ssl_keyfile" in told
    mine = tls_files / "other.pem"
    how = security(**known, ssl_certfile=mine, ssl_keyfile=tls_files / "other.key")
    told = refusal(end, address, how)
    assert f"Kafka at {address} did not accept the certificate {mine}" in told
    assert "Set ssl_certfile and ssl_keyfile" in told


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ssl_cafile": "none.pem"}, r"ssl_cafile .*none\.pem\): No such file"),
        ({"ssl_cafile": "server.ext"}, r"ssl_cafile .*server\.ext\): no certificate or crl found"),
        ({"ssl_certfile": "none.pem"}, r"ssl_certfile .*none\.pem\): No such file"),
        (
            {"ssl_certfile": "client.pem", "ssl_keyfile": "none.key"},
            r"ssl_keyfile .*none\.key\): No such file",
        ),
        (
            {"ssl_certfile": "client.pem", "ssl_keyfile": "other.key"},
            r"client\.pem, .*other\.key\): key values mismatch",
        ),
        (
            {"ssl_certfile": "client.pem", "ssl_keyfile": "client.key", "ssl_password": "hunter2"},
            r"ssl_password .*client\.key\): .*the password of the key is wrong",
        ),
        (
            {"ssl_certfile": "client.pem", "ssl_keyfile": "client.key"},
            r"ssl_password .*client\.key\): .*the password of the key is wrong",
        ),
        ({"ssl_crlfile": "none.pem"}, r"ssl_crlfile .*none\.pem\): No such file"),
    ],
)
def test_files_that_cannot_be_used_are_named_at_once(
    options: dict[str, str], reason: str, tls_files: Path
) -> None:
    every = {
        name: value if name == "ssl_password" else tls_files / value
        for name, value in {"ssl_cafile": "ca.pem", **options}.items()
    }
    with pytest.raises(Unavailable, match=reason) as error:
        KafkaSource(("127.0.0.1:1",), "t", security=security(**every))
    assert "hunter2" not in str(error.value)


# --- a listener that is no broker ---------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections and closes them without a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_all() -> None:
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()

        thread = threading.Thread(target=close_all)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_port_that_is_no_broker_is_not_taken_for_one(silent: str, tls_files: Path) -> None:
    told = diagnose(silent, security(ssl_cafile=tls_files / "ca.pem"))
    assert told is not None
    assert f"TLS with Kafka at {silent} failed" in told
    assert diagnose(silent, Security()) is None


def test_a_certificate_that_was_revoked(
    kafka_client: str, local_kafka: Any, tls_files: Path, tmp_path: Path
) -> None:
    topic = f"revoked-{kafka_client}"
    local_kafka.create_topic(topic)
    none = certificates.revocations(tls_files, tmp_path / "none", ())
    how = {"ssl_cafile": tls_files / "ca.pem"}
    there_and_back(local_kafka.tls_address, topic, security(**how, ssl_crlfile=none))
    revoked = certificates.revocations(tls_files, tmp_path / "server", ("server",))
    told = refusal(KafkaSource, local_kafka.tls_address, security(**how, ssl_crlfile=revoked))
    assert "certificate revoked" in told


def test_without_tls_there_is_no_context() -> None:
    assert context(Security()) is None
