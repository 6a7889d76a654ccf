"""An S3-compatible server for tests, in their own process: moto's."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator

import pytest

pytest.importorskip("moto.server", reason="S3 is moto's server: pip install 'moto[server]'")
pytest.importorskip("s3fs", reason="s3:// is read by s3fs: pip install 'streamk[object-store]'")

import boto3
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

BUCKET = "models"
_numbers = itertools.count()
"""Of addresses; what one server holds is there for the next one of the process, too."""
logging.getLogger("werkzeug").setLevel(logging.ERROR)


class S3:
    """A server with a bucket, on a port of its own.

    `environment`: variables by which its clients find it.
    """

    def __init__(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, self._port = self._server.get_host_and_port()
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://{host}:{self._port}",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "no secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def address(self) -> str:
        """Return an address that nothing is at."""
        return f"s3://{BUCKET}/job-{next(_numbers)}"

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Refuse connections for a while; the objects stay."""
        self._server.stop()
        yield
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self._port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()


@contextlib.contextmanager
def s3_server() -> Iterator[S3]:
    """Start a server, whose variables are in the environment meanwhile."""
    server = S3()
    with pytest.MonkeyPatch.context() as patched:
        for name, value in server.environment.items():
            patched.setenv(name, value)
        # A client that is kept would go on with the address of a server before.
        S3FileSystem.clear_instance_cache()
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        client.close()
        try:
            yield server
        finally:
            server.stop()
            S3FileSystem.clear_instance_cache()
