"""A Java process respects the lock of a log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from benchmarks.jvm import Jvm
from native_log import LogDir

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker


def test_a_broker_cannot_lock_the_directory_while_a_log_is_open_for_appending(
    class_path: str, tmp_path: Path
) -> None:
    path = tmp_path / "logs"
    record = pa.record_batch({"value": ["v"]})
    with Jvm(class_path, "Lock", str(path / ".lock")) as java:
        with LogDir.create(path) as logs:
            logs.create_topic("t")
            assert java.ask("try") == "locked"
            log = logs.partition("t", 0)
            log.append(record)
            assert java.ask("try") == "busy"
            (path / ".lock").read_bytes()  # drops a POSIX lock of this process
            assert java.ask("try") == "busy"
            log.append(record)
            assert java.ask("try") == "busy"
        assert java.ask("try") == "locked"
