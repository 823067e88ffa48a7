"""Servers of Azure Blob Storage, Google Cloud Storage and HDFS on this machine, with some files each.

Each is built or fetched once, by the package manager of its language.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import time
from ctypes.util import find_library
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import obstore
import pytest
from obstore.store import AzureStore

from benchmarks import s3_server
from benchmarks.jvm import JavaError, jars, java_tool
from benchmarks.jvm import unavailable_reason as no_java
from benchmarks.paths import HERE, cache

if TYPE_CHECKING:
    from collections.abc import Iterator

AZURITE = "3.37.0"
FAKE_GCS = "v1.56.1"
HDFS = HERE / "maven" / "hdfs.xml"
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every Azurite has; its documentation gives the key."""
_START_SECONDS = 60


class BuildError(Exception):
    """A server cannot be built or fetched here; the message has the end of the output."""


@dataclass(frozen=True)
class Store:
    """A store with a copy of a folder.

    Attributes:
        urls: of the copy, in several schemes.
        options: the storage options to read it.
    """

    urls: tuple[str, ...]
    options: dict[str, Any]


def unavailable_reason(name: str) -> str | None:
    """Return why this store cannot run here; None if it can."""
    if name == "kerberos" and find_library("gssapi_krb5") is None:
        return "expected the library gssapi_krb5, found none"
    if name in ("hdfs", "kerberos"):
        return no_java()
    tool = {"azure": "npm", "gcs": "go"}[name]
    return None if shutil.which(tool) else f"expected {tool} on PATH, found none"


@contextlib.contextmanager
def azure(folder: Path, scratch: Path) -> Iterator[Store]:
    """Run Azurite with a copy of `folder`."""
    program = _azurite()
    port = _free_port()
    command = [str(program / "node_modules" / ".bin" / "azurite-blob"), "--blobPort", str(port), "--silent"]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    with _running(command, scratch, port):
        endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
        _create_container(endpoint, "data")
        client: Any = {"allow_http": True}
        store = AzureStore(
            "data", account_name=_ACCOUNT, account_key=_KEY, endpoint=endpoint, client_options=client
        )
        for name, content in _files(folder):
            obstore.put(store, name, content)
        urls = ("az://data/copy", f"abfs://data@{_ACCOUNT}.dfs.core.windows.net/copy")
        yield Store(
            urls,
            {
                "azure_storage_account_name": _ACCOUNT,
                "azure_storage_account_key": _KEY,
                "azure_storage_endpoint": endpoint,
                "allow_http": True,
            },
        )


@contextlib.contextmanager
def gcs(folder: Path, scratch: Path) -> Iterator[Store]:
    """Run fake-gcs-server with a copy of `folder`."""
    program = _fake_gcs()
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [str(program / "fake-gcs-server"), "-backend", "memory", "-scheme", "http", "-port", str(port)]
    with _running([*command, "-public-host", f"127.0.0.1:{port}"], scratch, port):
        _post(f"{endpoint}/storage/v1/b?project=p", json.dumps({"name": "data"}).encode())
        for name, content in _files(folder):  # it does not accept the uploads of the client
            upload = f"{endpoint}/upload/storage/v1/b/data/o?uploadType=media&name={quote(name, safe='')}"
            _post(upload, content)
        options = {"google_base_url": endpoint, "google_skip_signature": True, "allow_http": True}
        yield Store(("gs://data/copy",), options)


@contextlib.contextmanager
def hdfs(folder: Path, scratch: Path) -> Iterator[Store]:
    """Run a small HDFS with a copy of `folder`."""
    with _hdfs(scratch, folder) as store:
        yield store


@contextlib.contextmanager
def kerberos(folder: Path, scratch: Path) -> Iterator[Store]:
    """Run a small HDFS that requires Kerberos and encrypts blocks. This process finds a keytab for it."""
    with _hdfs(scratch, folder, "privacy") as store, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(scratch / "hdfs" / "conf"))
        patch.setenv("KRB5_CONFIG", str(scratch / "hdfs" / "krb5.conf"))
        patch.setenv("KRB5_CLIENT_KTNAME", str(scratch / "hdfs" / "reader.keytab"))
        patch.setenv("KRB5CCNAME", f"FILE:{scratch / 'ticket'}")
        yield store


@contextlib.contextmanager
def _hdfs(scratch: Path, *arguments: str | Path) -> Iterator[Store]:
    source = Path(__file__).with_name("Hdfs.java")
    command = [java_tool("java"), "-cp", f"{_hadoop()}/*", source, scratch / "hdfs", *arguments]
    with (scratch / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert process.stdin is not None and process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError((scratch / "log").read_text()[-2000:])
        yield Store((f"{url}/data",), {})
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _azurite() -> Path:
    return _built(f"azurite-{AZURITE}", ["npm", "install", "--prefix", ".", f"azurite@{AZURITE}"])


def _fake_gcs() -> Path:
    package = f"github.com/fsouza/fake-gcs-server@{FAKE_GCS}"
    return _built(f"fake-gcs-server-{FAKE_GCS}", ["go", "install", package])


def _hadoop() -> Path:
    try:
        return jars(HDFS)
    except JavaError as error:
        raise BuildError(str(error)) from None


def _built(name: str, command: list[str]) -> Path:
    """Return the folder with a program, which `command` builds there once."""
    folder = cache() / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            environment = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
            process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if process.returncode:
                raise BuildError(f"{' '.join(command)}: {process.stderr[-500:]}")
            (folder / "done").touch()
    return folder


@contextlib.contextmanager
def _running(command: list[str], scratch: Path, port: int) -> Iterator[None]:
    with (scratch / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=scratch)
        try:
            end = time.monotonic() + _START_SECONDS
            while not _accepts_connections(port):
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError((scratch / "log").read_text()[-2000:])
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait()


def _accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield f"copy/{file.relative_to(folder).as_posix()}", file.read_bytes()


def _post(url: str, content: bytes) -> None:
    request = Request(url, content, {"Content-Type": "application/octet-stream"}, method="POST")
    urlopen(request).close()


def _create_container(endpoint: str, name: str) -> None:
    """Create a container with a request that is signed by hand: obstore cannot create any."""
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    version = "2021-08-06"
    headers = f"x-ms-date:{date}\nx-ms-version:{version}"
    resource = f"/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
    text = "\n".join(["PUT", *[""] * 11, headers, resource])
    digest = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    request = Request(f"{endpoint}/{name}?restype=container", method="PUT")
    request.add_header("x-ms-date", date)
    request.add_header("x-ms-version", version)
    request.add_header("Authorization", f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}")
    request.add_header("Content-Length", "0")
    urlopen(request).close()


if __name__ == "__main__":  # builds all servers, so that no test has to wait
    for build in (s3_server.program, _azurite, _fake_gcs, _hadoop):
        try:
            print(build())
        except (BuildError, s3_server.ServerError, OSError) as error:
            print(f"not built: {error}")
