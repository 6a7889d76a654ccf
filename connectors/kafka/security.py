"""Credentials for Kafka, read from a file or the environment and never shown, and its TLS."""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
import struct
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connectors.errors import BadURL, Unavailable

ENVIRONMENT_PREFIX = "STREAMK_KAFKA_"
"""``STREAMK_KAFKA_SASL_PLAIN_PASSWORD`` sets `sasl_plain_password`, and so on."""

_SECRETS = frozenset({"sasl_plain_password", "ssl_password"})
_SWITCHES = frozenset({"ssl_check_hostname"})
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OPTIONS = (
    "security_protocol",
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_crlfile",
    "ssl_ciphers",
    "ssl_check_hostname",
)
# What librdkafka's clients call the same things, so that their property files can be used.
_ALIASES = {
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_username": "sasl_plain_username",
    "sasl_password": "sasl_plain_password",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "ssl_crl_location": "ssl_crlfile",
    "ssl_cipher_suites": "ssl_ciphers",
}
_LIBRDKAFKA = {option: alias for alias, option in _ALIASES.items()}


class Secret(str):
    """A secret string that shows itself as ``***``.

    >>> word = Secret("hunter2")
    >>> print(word, [word], f"{word:>5}", len(word))
    *** [***]   *** 7
    """

    __slots__ = ()

    def __str__(self) -> str:
        return "***"

    def __repr__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)


@dataclass(frozen=True)
class Security:
    """The security options of one connection, under kafka-python's names."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Fit to be passed to kafka-python; secrets in it are `Secret`."""

    @staticmethod
    def load(
        file: str | Path | None = None, *, environment: Mapping[str, str] | None = None
    ) -> Security:
        """Read a TOML or properties file and then the environment, which has the last word.

        The file is TOML where its name ends in ``.toml`` (at the top level or in a table
        ``[kafka]``), else lines of ``key = value`` or ``key: value`` with ``#`` comments. Keys are
        kafka-python's or librdkafka's, with dots or underscores.

        Raises `Unavailable` for a file that cannot be read, `BadURL` for a key that is not known
        or options that contradict each other. No message holds a value.
        """
        raw: dict[str, Any] = {}
        if file is not None:
            raw.update({key: (value, str(file)) for key, value in _read(Path(file)).items()})
        variables = os.environ if environment is None else environment
        for name, value in variables.items():
            if name.startswith(ENVIRONMENT_PREFIX):
                raw[name.removeprefix(ENVIRONMENT_PREFIX).lower()] = (value, f"${name}")
        options: dict[str, Any] = {}
        for key, (value, where) in raw.items():
            option = _option(key, where)
            options[option] = _convert(option, value, where)
        _check(options)
        return Security(options)

    def librdkafka(self) -> dict[str, str]:
        """The options under librdkafka's names, secrets in plain text: pass it on, never keep it.

        Raises `BadURL` for an option that librdkafka does not have.
        """
        settings = {}
        for option, value in self.options.items():
            if option == "ssl_check_hostname":
                settings["ssl.endpoint.identification.algorithm"] = "https" if value else "none"
            elif option == "sasl_kerberos_domain_name":
                raise BadURL(f"{option} is not an option of client=confluent; use kafka-python")
            else:
                name = _LIBRDKAFKA.get(option, option).replace("_", ".")
                settings[name] = "".join(value)  # the characters, which str() would hide
        return settings

    def redact(self, text: str) -> str:
        """Return the text with every secret in it replaced by ``***``."""
        for needle in self._needles():
            text = text.replace(needle, "***")
        return text

    def guard_logs(self) -> None:
        """Remove these secrets from the clients' logs from now on."""
        needles = self._needles()
        if not needles:
            return
        # A filter acts on its own logger only, so every logger of the package gets it.
        for name in list(logging.root.manager.loggerDict):
            if name.partition(".")[0] in ("kafka", "confluent_kafka"):
                logger = logging.getLogger(name)
                if _REDACTOR not in logger.filters:
                    logger.addFilter(_REDACTOR)
        _REDACTOR.needles.update(needles)

    def _needles(self) -> set[str]:
        needles = set()
        for name in _SECRETS & self.options.keys():
            plain = "".join(self.options[name])  # the characters, which str() would hide
            # As it is, and as it looks inside a shown str, bytes or bytearray: those escape a quote
            # or not, as the rest of them has it.
            shown = (repr(f'{plain}"')[1:-2], repr(plain.encode() + b'"')[2:-2])
            needles |= {plain, *shown, *(one.replace("\\'", "'") for one in shown)}
            needles |= {one.replace("'", "\\'") for one in shown if "\\'" not in one}
        return needles - {""}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"Security({shown})"


class _Redactor(logging.Filter):
    """Rewrites log records that hold a secret."""

    def __init__(self) -> None:
        super().__init__()
        self.needles: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        clean = message
        for needle in self.needles:
            clean = clean.replace(needle, "***")
        if clean != message:
            record.msg, record.args = clean, ()
        return True


_REDACTOR = _Redactor()


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise Unavailable(f"security file {file} cannot be read: {reason}") from None
    if file.suffix == ".toml":
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadURL(f"security file {file} is not valid TOML: {error}") from None
        inner = table.get("kafka", table)
        if not isinstance(inner, dict):
            raise BadURL(f"security file {file}: [kafka] must be a table of options")
        return inner
    pairs = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        key, *value = re.split("[=:]", line, maxsplit=1)
        if not value:
            raise BadURL(f"security file {file}, line {number}: expected `key = value`")
        pairs[key.strip()] = value[0].strip()
    return pairs


def _option(key: str, where: str) -> str:
    name = key.lower().replace(".", "_").replace("-", "_")
    name = _ALIASES.get(name, name)
    if name not in _OPTIONS:
        raise BadURL(
            f"{where}: `{key}` is not a Kafka security option; there are " + ", ".join(_OPTIONS)
        )
    return name


def _convert(option: str, value: Any, where: str) -> Any:
    if option in _SWITCHES:
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise BadURL(f"{where}: {option} must be true or false")
    if not isinstance(value, str):
        raise BadURL(f"{where}: {option} must be text")
    return Secret(value) if option in _SECRETS else value


def _check(options: dict[str, Any]) -> None:
    """Refuse options that a client would ignore."""
    protocol = options.get("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise BadURL(
            f"security_protocol {protocol!r} is not known; there are " + ", ".join(_PROTOCOLS)
        )
    sasl = sorted(name for name in options if name.startswith("sasl_"))
    if sasl and not protocol.startswith("SASL"):
        raise BadURL(
            f"{sasl[0]} is given, but security_protocol is {protocol}, which sends no credentials; "
            "set it to SASL_SSL (or SASL_PLAINTEXT on a trusted network)"
        )
    if protocol.startswith("SASL") and "sasl_mechanism" not in options:
        raise BadURL(f"security_protocol {protocol} needs sasl_mechanism, such as SCRAM-SHA-512")
    needed = {"sasl_plain_username", "sasl_plain_password"}
    mechanism = options.get("sasl_mechanism", "")
    if mechanism.startswith(("PLAIN", "SCRAM")) and not needed <= options.keys():
        lacks = " and ".join(sorted(needed - options.keys()))
        raise BadURL(f"sasl_mechanism {mechanism} needs {lacks}")
    tls = sorted(name for name in options if name.startswith("ssl_"))
    if tls and not protocol.endswith("SSL"):
        raise BadURL(
            f"{tls[0]} is given, but security_protocol is {protocol}, which does not encrypt; "
            "set it to SSL or SASL_SSL"
        )


# --- TLS ------------------------------------------------------------------------------------------


_PATIENCE = 2.0
"""Seconds for each step of a handshake."""
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Kafka's first request, which a listener answers before any login: size, key 18, version 0,
correlation 1, no client id."""
_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_OUT_OF_DATE = (9, 10)
"""OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""


def context(security: Security) -> ssl.SSLContext | None:
    """Return the TLS context that the options describe; None without TLS.

    Raises `Unavailable` where a file of certificates cannot be used, naming its option.
    """
    if not _encrypts(security):
        return None
    options = security.options
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = bool(options.get("ssl_check_hostname", True))
    authority = options.get("ssl_cafile", "probe")
    if authority == "probe":  # librdkafka's word for the system's own
        made.load_default_certs()
    else:
        where = {"capath" if Path(authority).is_dir() else "cafile": authority}
        _use("ssl_cafile", authority, lambda: made.load_verify_locations(**where))
    if "ssl_crlfile" in options:
        revoked = options["ssl_crlfile"]
        _use("ssl_crlfile", revoked, lambda: made.load_verify_locations(revoked))
        made.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if "ssl_certfile" in options:
        mine, key = options["ssl_certfile"], options.get("ssl_keyfile")
        for option in ("ssl_certfile", "ssl_keyfile"):
            if option in options:
                _use(option, options[option], Path(options[option]).read_bytes)
        # A password that is missing would be asked for at the terminal. The characters of a
        # `Secret`, which str() would hide, stay out of every variable.
        _use(
            "ssl_certfile, ssl_keyfile or ssl_password",
            mine if key is None else f"{mine}, {key}",
            lambda: made.load_cert_chain(
                mine, key, lambda: "".join(options.get("ssl_password", ""))
            ),
        )
    if "ssl_ciphers" in options:
        ciphers = options["ssl_ciphers"]
        _use("ssl_ciphers", ciphers, lambda: made.set_ciphers(ciphers))
    return made


def diagnose(server: str, security: Security) -> str | None:
    """Return why TLS with a broker fails that takes connections, and what to change, or None."""
    protocol = security.options.get("security_protocol", "PLAINTEXT")
    if not _encrypts(security):
        if not _handshakes(server):
            return None
        encrypted = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
        return (
            f"Kafka at {server} speaks TLS, and security_protocol is {protocol}. Set"
            f" security_protocol to {encrypted}, and ssl_cafile to the certificate of the authority"
            " that signed the broker's"
        )
    try:
        _ask(server, context(security))
    except ssl.SSLCertVerificationError as error:
        return _refused(server, security, error)
    except ssl.SSLError as error:
        if "alert" in _words(error):
            return _turned_away(server, security, error)
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    else:
        return None
    if _answers_plain(server):
        plain = protocol.replace("SSL", "PLAINTEXT")
        return (
            f"Kafka at {server} does not speak TLS, and security_protocol is {protocol}. Take the"
            f" port of a listener that does, or, on a trusted network, set security_protocol to"
            f" {plain}"
        )
    return (
        f"TLS with Kafka at {server} failed: {reason}. Check that it is a listener with TLS, and"
        " that it has a version and a cipher in common with this machine (ssl_ciphers)"
    )


def _encrypts(security: Security) -> bool:
    return str(security.options.get("security_protocol", "")).endswith("SSL")


def _refused(server: str, security: Security, error: ssl.SSLCertVerificationError) -> str:
    """Explain why the broker's certificate is not accepted."""
    why = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_NAME:
        return (
            f"Kafka at {server} showed a certificate for another name: {why}. Use an address that "
            "it is made for, or have one made for this address; ssl_check_hostname = false "
            "accepts any name, and so any server whose certificate the same authority has signed"
        )
    if error.verify_code in _OUT_OF_DATE:
        return f"Kafka at {server} showed a certificate that is out of date: {why}. Renew it there"
    by = security.options.get("ssl_cafile", "any authority that this system knows")
    return (
        f"Kafka at {server} showed a certificate that was not signed by {by}: {why}. Set ssl_cafile"
        " to the certificate of the authority that signed it"
    )


def _turned_away(server: str, security: Security, error: ssl.SSLError) -> str:
    """Explain an alert of the broker: it ended the handshake."""
    alert = _words(error)
    mine = security.options.get("ssl_certfile")
    if mine is None:
        return (
            f"Kafka at {server} ended the TLS handshake ({alert}): it probably asks clients for a "
            "certificate. Set ssl_certfile and ssl_keyfile to one that it trusts"
        )
    return (
        f"Kafka at {server} did not accept the certificate {mine} ({alert}). Set ssl_certfile and"
        " ssl_keyfile to one that it trusts"
    )


def _use(option: str, value: str, use: Callable[[], object]) -> None:
    """Call a function; where it fails, raise `Unavailable` that names the option."""
    try:
        use()
    except ssl.SSLError as error:
        reason = _words(error) or "it is not a PEM file, or the password of the key is wrong"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    else:
        return
    raise Unavailable(
        f"{option} of the Kafka connection cannot be used ({value}): {reason}. Give PEM files that"
        " this user may read, and the password of the key where it has one"
    )


def _words(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason as words, empty where it gives none."""
    return (error.reason or "").lower().replace("_", " ")


def _ask(server: str, settings: ssl.SSLContext | None) -> None:
    """Shake hands and ask a first question: by the answer a broker has accepted a certificate.

    Raises `OSError`, of which `ssl.SSLError` is one.
    """
    with _connected(server) as plain:
        host = server.rpartition(":")[0].strip("[]")
        assert settings is not None  # TLS is asked for
        with settings.wrap_socket(plain, server_hostname=host) as link:
            link.sendall(_API_VERSIONS)
            if not link.recv(1):
                raise ConnectionResetError("the connection was closed")


def _handshakes(server: str) -> bool:
    any_broker = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is sent over this link but the handshake, so it need not be verified.
    any_broker.check_hostname, any_broker.verify_mode = False, ssl.CERT_NONE
    try:
        with _connected(server) as plain, any_broker.wrap_socket(plain):
            return True
    except OSError:
        return False


def _answers_plain(server: str) -> bool:
    try:
        with _connected(server) as link:
            link.sendall(_API_VERSIONS)
            return len(link.recv(8)) == 8
    except OSError:
        return False


def _connected(server: str) -> socket.socket:
    host, _, port = server.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE)
