"""TLS to Kafka: why a handshake fails, found out by one of our own.

Clients tell it in words of their library, or not at all. So where no broker has answered, one
handshake is made here, as the options say, and its failure is named with the option to change.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path

from connectors.errors import Unavailable
from connectors.kafka.security import Security

__all__ = ["context", "diagnose"]

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
    """Return what the options say of TLS, None without it.

    Raises `Unavailable` where a file of certificates cannot be used, naming its option.
    """
    return _context(security) if _encrypts(security) else None


def diagnose(server: str, security: Security) -> str | None:
    """Return why TLS is what fails with a broker, and what to change; None if it is not.

    Parameters
    ----------
    server : str
        ``host:port``, which takes connections.
    security : Security
    """
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
        _ask(server, _context(security))
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
    """Explain why the broker's certificate does not do."""
    why = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_NAME:
        return (
            f"Kafka at {server} showed a certificate for another name: {why}. Use an address that"
            " it is made for, or have one made for this address; ssl_check_hostname = false takes"
            " any name, and with it anyone whom the same authority has signed"
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
            f"Kafka at {server} ended the TLS handshake ({alert}), as one does that asks clients"
            " for a certificate. Set ssl_certfile and ssl_keyfile to one that it trusts"
        )
    return (
        f"Kafka at {server} did not accept the certificate {mine} ({alert}). Set ssl_certfile and"
        " ssl_keyfile to one that it trusts"
    )


def _context(security: Security) -> ssl.SSLContext:
    """Return what the options say of TLS. Raises `Unavailable`, naming the option."""
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


def _use(option: str, value: str, use: Callable[[], object]) -> None:
    """Call a function; where it fails, raise `Unavailable` that names the option."""
    try:
        use()
    except ssl.SSLError as error:
        reason = _words(error) or "it is no PEM file, or the password of the key is another"
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


def _ask(server: str, settings: ssl.SSLContext) -> None:
    """Shake hands and ask a first question: by the answer a broker has accepted a certificate.

    Raises `OSError`, of which `ssl.SSLError` is one.
    """
    with _connected(server) as plain:
        host = server.rpartition(":")[0].strip("[]")
        with settings.wrap_socket(plain, server_hostname=host) as link:
            link.sendall(_API_VERSIONS)
            if not link.recv(1):
                raise ConnectionResetError("the connection was closed")


def _handshakes(server: str) -> bool:
    """Return whether a listener speaks TLS."""
    any_broker = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is sent over this link but the handshake, so it need not be verified.
    any_broker.check_hostname, any_broker.verify_mode = False, ssl.CERT_NONE
    try:
        with _connected(server) as plain, any_broker.wrap_socket(plain):
            return True
    except OSError:
        return False


def _answers_plain(server: str) -> bool:
    """Return whether a listener answers Kafka's first request without TLS."""
    try:
        with _connected(server) as link:
            link.sendall(_API_VERSIONS)
            return len(link.recv(8)) == 8
    except OSError:
        return False


def _connected(server: str) -> socket.socket:
    host, _, port = server.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE)
