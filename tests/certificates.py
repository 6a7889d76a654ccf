"""Certificates for tests, made by the command `openssl` in a directory of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["make", "missing"]

PASSWORD = "tr0ub4dor & 3"
"""Of the client's private key."""


def missing() -> str | None:
    """What this machine lacks to make them, in words."""
    return None if shutil.which("openssl") else "openssl (no `openssl` on the path)"


def make(directory: Path) -> Path:
    """Make the certificates, and return the directory.

    ``ca.pem`` signs; ``server.pem`` has the broker's key and its certificate for 127.0.0.1 and no
    other name; ``client.pem`` and ``client.key`` are a client's, with a password; ``other.pem``
    is one that has signed nothing here.
    """
    _authority(directory, "ca")
    _authority(directory, "other")
    _signed(directory, "server", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    server = directory / "server.pem"
    server.write_text((directory / "server.key").read_text() + server.read_text())
    server.chmod(0o600)
    _signed(directory, "client", "extendedKeyUsage=clientAuth\n")
    key = ("-in", "client.key", "-out", "locked.key", "-topk8", "-v2", "aes-256-cbc")
    _openssl(directory, "pkcs8", *key, "-passout", f"pass:{PASSWORD}")
    (directory / "locked.key").rename(directory / "client.key")
    return directory


def _authority(directory: Path, name: str) -> None:
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "7")
    files = ("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN=streamk test {name}")
    _openssl(directory, "req", "-x509", *new, *files)


def _signed(directory: Path, name: str, extensions: str) -> None:
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    _openssl(directory, "req", "-new", *new, *files)
    (directory / f"{name}.ext").write_text(extensions)
    signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "7")
    files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", f"{name}.ext")
    _openssl(directory, "x509", "-req", *signer, *files)


def _openssl(directory: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"


def revocations(directory: Path, work: Path, names: tuple[str, ...]) -> Path:
    """Return a list, in `work`, of the certificates that the authority has revoked."""
    work.mkdir()
    (work / "index.txt").touch()
    (work / "crlnumber").write_text("01\n")
    (work / "ca.cnf").write_text(
        "[ca]\ndefault_ca=one\n[one]\ndatabase=index.txt\ncrlnumber=crlnumber\n"
        "default_md=sha256\ndefault_crl_days=7\n"
    )
    signer = (
        "-config",
        "ca.cnf",
        "-cert",
        f"{directory}/ca.pem",
        "-keyfile",
        f"{directory}/ca.key",
    )
    for name in names:
        _openssl(work, "ca", *signer, "-revoke", f"{directory}/{name}.pem")
    _openssl(work, "ca", *signer, "-gencrl", "-out", "crl.pem")
    return work / "crl.pem"
