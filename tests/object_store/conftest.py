"""An S3 server for the tests in this folder.

Without Go, which builds the server once, they are skipped, or fail if KAFKALOG_REQUIRE_S3 is 1.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from benchmarks.s3_server import S3Server, unavailable_reason
from tests.builders.golden import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server. The bucket `data` has the files in tests/data."""
    reason = unavailable_reason()
    if reason is not None:
        stop = pytest.fail if os.environ.get("KAFKALOG_REQUIRE_S3") == "1" else pytest.skip
        stop(f"no S3 server can run here: {reason}")
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        (server.root / "data").symlink_to(DATA)
        yield server
