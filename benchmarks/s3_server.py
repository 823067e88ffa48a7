"""A real S3 server on this machine: versitygw, which serves the folders in a folder as buckets."""

import fcntl
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from benchmarks.paths import cache

VERSION = "v1.8.0"
PACKAGE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
ACCESS_KEY, SECRET_KEY = "kafkalog-access-key", "kafkalog-secret-key"
_START_SECONDS = 30


class ServerError(Exception):
    """The server cannot be built, or does not start; the message has the end of its output."""


def unavailable_reason() -> str | None:
    """Return why no S3 server can run on this machine, or None if one can. It is built if it is missing."""
    if not _program().exists() and shutil.which("go") is None:
        return "expected Go 1.24 or newer on PATH, found none; it builds the S3 server once"
    try:
        program()
    except ServerError as error:
        return str(error)
    return None


def _program() -> Path:
    return cache() / f"versitygw-{VERSION}" / "versitygw"


def program() -> Path:
    """Return the path of the server. Go builds it once, which takes a few minutes."""
    path = _program()
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            environment = {**os.environ, "GOBIN": str(path.parent), "CGO_ENABLED": "0"}
            command = ["go", "install", "-trimpath", "-ldflags=-s -w", PACKAGE]
            process = subprocess.run(command, env=environment, capture_output=True, text=True)
            if process.returncode:
                raise ServerError(process.stderr[-2000:])
    return path


class S3Server:
    """The server, from its creation until `close`.

    Attributes:
        root: the folder with the buckets. Files that are put there directly have no ETags.
        port: where it listens on this host.
        endpoint: its URL.
        options: the storage options to read from it.
    """

    def __init__(self, folder: Path) -> None:
        """Start the server on a free port. `folder` is its own. Raises ServerError."""
        self.root, metadata = folder / "buckets", folder / "metadata"
        for each in (self.root, metadata):
            each.mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        self._log = (folder / "log").open("w+")
        arguments = ["--port", f"127.0.0.1:{port}", "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--quiet"]
        arguments += ["posix", "--bucketlinks", "--sidecar", str(metadata), str(self.root)]
        self._process = subprocess.Popen([program(), *arguments], stdout=self._log, stderr=self._log)
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"
        self.options = {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
        self._wait(port)

    def _wait(self, port: int) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.close()
        raise ServerError(Path(self._log.name).read_text()[-2000:])

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def __enter__(self) -> "S3Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
