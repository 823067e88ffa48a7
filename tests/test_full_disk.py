"""A disk that is full at any write, for a moment or for good: the error, the rows, and the next run."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log import LogDir
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN_FILE
from native_log.publish import offsets
from native_log.records import reference
from tests.builders.commits import NOW_MS, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITES = ("pwrite", "ftruncate", "fsync", "copy_file_range")
"""The system names no file in the errors of these functions."""

DIRECTORY_CHANGES = ("open", "mkdir", "rename", "replace")
"""Functions that may need a new block for a directory. The system names the file in their errors."""

SMALL_SEGMENTS = {"segment.bytes": "1800", "index.interval.bytes": "300"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
LATER_MS = NOW_MS + 10**9
Rows = set[tuple[int, bytes]]


class EndOfWritesError(Exception):
    """The operation ended before the disk was full."""


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


class Disk:
    """A disk that is full for some writes.

    Args:
        full: tell of the number of a write, from 0, whether the disk is full then.

    Attributes:
        writes: the number of writes so far.
    """

    def __init__(self, patch: pytest.MonkeyPatch, full: Callable[[int], bool]) -> None:
        self.writes, self._full = 0, full
        # System calls of the Rust kernel cannot be counted, those of the reference implementation can.
        patch.setattr(offsets, "write_prefixes", reference.write_prefixes)
        for name in (*WRITES, *DIRECTORY_CHANGES):
            patch.setattr(os, name, self._limited(name, getattr(os, name)))

    def _limited(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *arguments: Any, **named: Any) -> Any:
            if _needs_space(name, first, *arguments):
                self.writes += 1
                if self._full(self.writes - 1):
                    file = [str(first)] if name in DIRECTORY_CHANGES else []
                    raise OSError(errno.ENOSPC, "No space left on device", *file)
            return function(first, *arguments, **named)

        return call


def _needs_space(name: str, first: Any, *arguments: Any) -> bool:
    if name == "open":
        return bool(arguments[0] & os.O_CREAT) and not os.path.lexists(first)
    return name != "rename" or os.path.lexists(first)


def failure(operation: Callable[[Path], object], data: Path, full: Callable[[int], bool]) -> str | None:
    """Run an operation on a disk that is full for some writes. Return the error, if any.

    Raises EndOfWritesError if the disk was full for none of its writes.
    """
    is_full = False

    def checked(number: int) -> bool:
        nonlocal is_full
        is_full |= full(number)
        return full(number)

    with pytest.MonkeyPatch.context() as patch:
        Disk(patch, checked)
        try:
            result = operation(data)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            return native_log.errors.error_message(error)
    if not is_full:
        raise EndOfWritesError
    if not isinstance(result, pa.Table):
        return None
    column = next((name for name in ("reason", "error") if name in result.schema.names), None)
    return (
        None if column is None else next((r for r in result[column].to_pylist() if r and "space" in r), None)
    )


@pytest.mark.parametrize("stays_full", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_full_disk_at_any_write(name: str, stays_full: bool, before: Path, tmp_path: Path) -> None:
    operation, data, failed = OPERATIONS[name], tmp_path / "data", 0
    shutil.copytree(before, data)
    operation(data)
    at_first, at_last = rows(before), rows(data)
    for step in itertools.count():
        shutil.rmtree(data)
        shutil.copytree(before, data)
        try:
            message = failure(operation, data, step.__le__ if stays_full else step.__eq__)
        except EndOfWritesError:
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
