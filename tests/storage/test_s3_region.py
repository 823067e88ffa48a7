"""A bucket in another region than the one that a client asks first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

from native_log.storage.remote.object_bucket import ObjectBucket
from tests.builders.certificates import server_context

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("obstore")

LISTING = (
    b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix/>'
    b"<KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated><Contents><Key>file</Key>"
    b"<LastModified>2026-11-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>3</Size>"
    b"</Contents></ListBucketResult>"
)


class Frankfurt(BaseHTTPRequestHandler):
    """S3 with one bucket in eu-central-1. It redirects without a location, as Amazon's servers do."""

    tells_region = True

    def do_HEAD(self) -> None:
        self.answer(403 if "Authorization" not in self.headers else 200)

    def do_GET(self) -> None:
        is_here = "/eu-central-1/s3/" in self.headers["Authorization"]
        self.answer(200 if is_here else 301, LISTING if is_here else b"")

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        if self.tells_region:
            self.send_header("x-amz-bucket-region", "eu-central-1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Frankfurt)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def options(server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    return {
        "aws_endpoint": f"http://127.0.0.1:{server.server_port}",
        "allow_http": "true",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
    }


def test_the_bucket_is_found_in_its_region(options: dict[str, str]) -> None:
    bucket = ObjectBucket("s3a://b", options)
    with ThreadPoolExecutor(8) as threads:
        for files, folders in threads.map(bucket.list, [""] * 16):
            assert (list(files), list(folders)) == (["file"], [])


def test_the_region_is_looked_up_through_the_proxy(options: dict[str, str]) -> None:
    proxy = options["aws_endpoint"]
    bucket = ObjectBucket("s3://b", {**options, "aws_endpoint": "http://s3.invalid", "proxy_url": proxy})
    assert list(bucket.list("")[0]) == ["file"]


def test_no_proxy_for_hosts_that_are_excluded(options: dict[str, str]) -> None:
    options |= {"proxy_url": "http://127.0.0.1:1", "proxy_excludes": "127.0.0.1"}
    assert list(ObjectBucket("s3://b", options).list("")[0]) == ["file"]


def test_invalid_certificates_are_accepted_if_that_is_allowed(
    server: ThreadingHTTPServer, options: dict[str, str], tmp_path: Path
) -> None:
    other_host = server_context(tmp_path, x509.DNSName("other.example.com"))
    server.socket = other_host.wrap_socket(server.socket, server_side=True)
    options["aws_endpoint"] = options["aws_endpoint"].replace("http:", "https:")
    options["allow_invalid_certificates"] = "true"
    assert list(ObjectBucket("s3://b", options).list("")[0]) == ["file"]


def test_a_bucket_elsewhere_after_broken_connections_is_an_error(options: dict[str, str]) -> None:
    answers = iter(["connection closed", "connection closed", "redirect without LOCATION"])

    def send() -> None:
        raise RuntimeError(next(answers))

    with pytest.raises(OSError, match="the bucket is in another region"):
        ObjectBucket("s3://b", options)._request("", send)


@pytest.mark.parametrize("name", ["aws_region", "default_region", "AWS_REGION"])
def test_a_region_that_was_given_is_not_changed(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name.isupper():
        monkeypatch.setenv(name, "us-west-2")
    else:
        options[name] = "us-west-2"
    with pytest.raises(OSError, match="the bucket is in another region; set aws_region"):
        ObjectBucket("s3://b", options).list("")


def test_a_server_that_does_not_tell_the_region(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Frankfurt, "tells_region", False)
    with pytest.raises(OSError, match="the bucket is in another region; set aws_region"):
        ObjectBucket("s3://b", options).list("")
