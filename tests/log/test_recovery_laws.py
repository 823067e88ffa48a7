"""After any damage to the files of a log, recovery keeps the records before it and leaves a valid log."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.config import LogConfig
from native_log.log import PartitionLog
from native_log.log.recovery.log_recovery import recover_log
from native_log.log.verification import verify_log
from tests.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = {"segment.bytes": 2000, "index.interval.bytes": 300}
ROWS = 300
_NOT_CHECKED = {*range(8), *range(12, 17)}
"""The bytes of a batch that the checksum does not cover: base offset, leader epoch and magic."""


class Batch(NamedTuple):
    segment: str
    position: int
    size: int
    first: int
    """The index of its first row."""


class Written(NamedTuple):
    path: Path
    batches: list[Batch]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    path = tmp_path_factory.mktemp("written") / "t-0"
    path.mkdir()
    with PartitionLog.open(path, config=CONFIG) as log:
        for first in range(0, ROWS, 50):
            values = [b"%d" % n * 5 for n in range(first, first + 50)]
            codec = ("none", "lz4", "zstd")[first // 50 % 3]
            log.append(pa.record_batch({"value": values}), batch_size=250, compression=codec)
    batches = [
        Batch(row["segment"], row["position"], row["sizeInBytes"], row["baseOffset"])
        for some in log.batches()
        for row in some.to_pylist()
    ]
    assert len({batch.segment for batch in batches}) > 3
    return Written(path, batches)


def values(path: Path) -> list[bytes]:
    batches = PartitionLog.open(path).read(columns=["value"])
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def run_recovery(path: Path) -> None:
    settings_ = LogConfig.parse(CONFIG)
    first = recover_log(path, recovery_point=0, log_start_offset=0, config=settings_)
    assert [str(problem) for problem in verify_log(PartitionLog.open(path))] == []
    again = recover_log(path, recovery_point=0, log_start_offset=0, config=settings_)
    assert not again.loses_data
    assert again.log_end_offset == first.log_end_offset


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_records_before_the_damage_are_kept(
    written: Written, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "t-0"
    shutil.copytree(written.path, path)
    batch = data.draw(st.sampled_from(written.batches))
    within = data.draw(st.integers(0, batch.size - 1).filter(lambda at: at not in _NOT_CHECKED))
    file, at = path / batch.segment, batch.position + within
    content = bytearray(file.read_bytes())
    how = data.draw(st.sampled_from(["flip", "cut", "zeros", "insert", "garbage"]))
    if how == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "cut":
        del content[at:]
    elif how == "zeros":
        content[at:] = bytes(len(content) - at)
    elif how == "insert":
        content[at:at] = data.draw(st.binary(min_size=1, max_size=40).filter(any))
    else:
        content[at:] = data.draw(st.binary(max_size=200))
    kept = rows_kept(written, batch.segment, file.read_bytes(), bytes(content))
    file.write_bytes(content)
    run_recovery(path)
    assert values(path) == [b"%d" % n * 5 for n in range(kept)]


def rows_kept(written: Written, segment: str, before: bytes, after: bytes) -> int:
    """Return the rows before the first batch whose bytes changed, or before bytes after the last one."""
    following = [batch.first for batch in written.batches if batch.segment > segment]
    for batch in written.batches:
        within = slice(batch.position, batch.position + batch.size)
        if batch.segment == segment and before[within] != after[within]:
            return batch.first
    return ROWS if len(after) == len(before) else min(following, default=ROWS)


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_no_row_is_lost_with_the_files_beside_the_log(
    written: Written, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "t-0"
    shutil.copytree(written.path, path)
    beside = sorted(file for file in path.iterdir() if file.suffix != ".log")
    for file in data.draw(st.lists(st.sampled_from(beside), unique=True, min_size=1)):
        if data.draw(st.booleans()):
            file.unlink()
        else:
            file.write_bytes(data.draw(st.binary(max_size=60)))
    run_recovery(path)
    assert values(path) == [b"%d" % n * 5 for n in range(ROWS)]
    for file in written.path.glob("*.*index"):
        assert (path / file.name).read_bytes() == file.read_bytes(), file.name
