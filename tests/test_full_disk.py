"""A disk that is full at any write: the error, the rows that are left, and the next run."""

from __future__ import annotations

import errno
import itertools
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import native_log
from native_log import LogDir
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN_FILE
from tests.builders.commits import NOW_MS, write
from tests.publish.test_crash import EndOfChangesError, run_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITES = ("pwrite", "ftruncate", "fsync", "copy_file_range")
"""The system names no file in the errors of these functions."""

SMALL_SEGMENTS = {"segment.bytes": "1800", "index.interval.bytes": "300"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
LATER_MS = NOW_MS + 10**9
Rows = set[tuple[int, bytes]]


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Return a log directory with one log of several segments, in which each key occurs twice."""
    data = tmp_path / "before"
    LogDir.create(data)
    for _ in range(2):
        write(data, 0, 150, partitions=1, tasks=1, config=SMALL_SEGMENTS)
    return data


def append_batches(data: Path) -> None:
    other = data.parent / "other"
    if not other.exists():
        LogDir.create(other)
        write(other, 150, 160, partitions=1)
    with LogDir(data).partition("t", 0) as log:
        log.append_batches(LogDir(other).partition("t", 0).segments[0].path.read_bytes())


def recover(data: Path) -> pa.Table:
    (data / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    return native_log.recover(data, from_start=True)


def reindex(data: Path) -> pa.Table:
    for index in [*data.glob("t-0/*.index"), *data.glob("t-0/*.timeindex")]:
        index.write_bytes(b"")
    return native_log.reindex(data)


def salvage(data: Path) -> pa.Table:
    destination = data.parent / "salvaged"
    shutil.rmtree(destination, ignore_errors=True)
    return native_log.salvage(data, destination)


OPERATIONS: dict[str, Callable[[Path], object]] = {
    "compact": lambda data: native_log.compact(data, "t", COMPACTED, LATER_MS),
    "erase": lambda data: native_log.erase(data, "t", key_prefix="k1"),
    "retain": lambda data: native_log.retain(data, "t", {"retention.bytes": 1}, LATER_MS),
    "delete_records": lambda data: native_log.delete_records(data, {("t", 0): 120}),
    "salvage": salvage,
    "recover": recover,
    "reindex": reindex,
    "append_batches": append_batches,
}


def rows(data: Path) -> Rows:
    log = LogDir(data).partition("t", 0)
    return {
        (offset, value)
        for batch in log.read(columns=["offset", "value"])
        for offset, value in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    }


def failure(operation: Callable[[Path], object], data: Path, step: int) -> str | None:
    """Run an operation whose write number `step` fails. Return the error, if any."""

    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    result: list[object] = []
    try:
        run_interrupted(lambda: result.append(operation(data)), step, fail, WRITES)
    except OSError as error:
        assert error.errno == errno.ENOSPC
        return native_log.errors.error_message(error)
    table = result[0]
    if not isinstance(table, pa.Table):
        return None
    column = next((name for name in ("reason", "error") if name in table.schema.names), None)
    return (
        None if column is None else next((r for r in table[column].to_pylist() if r and "space" in r), None)
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_full_disk_at_any_write(name: str, before: Path, tmp_path: Path) -> None:
    operation, data, failed = OPERATIONS[name], tmp_path / "data", 0
    shutil.copytree(before, data)
    operation(data)
    at_first, at_last = rows(before), rows(data)
    for step in itertools.count():
        shutil.rmtree(data)
        shutil.copytree(before, data)
        try:
            message = failure(operation, data, step)
        except EndOfChangesError:
            break
        assert message is not None, step
        assert message.startswith(str(tmp_path)), (step, message)
        assert at_first & at_last <= rows(data) <= at_first | at_last, step
        failed += 1
        # If closing the log failed, the batches are in it, and a second append would add them again.
        if name != "append_batches" or rows(data) == at_first:
            operation(data)
        assert rows(data) == at_last, step
    assert failed > 1
