"""Fixtures of the tests of object stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.http_proxy import HttpProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.s3_server import S3Server


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[HttpProxy]:
    """A proxy in front of the S3 server, which counts the requests of one test."""
    with HttpProxy(s3.port) as running:
        yield running
