"""LogScan: a range of a log that is read more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from native_log import CorruptRecordError, LogDir, LogScan, OffsetOutOfRangeError, PartitionLog
from tests.builders.batches import batch
from tests.builders.logs import write_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    with LogDir.create(tmp_path) as logs:
        logs.create_topic("t")
        log = logs.partition("t", 0)
        log.append(pa.record_batch({"value": [str(number) for number in range(100)]}))
        yield log


def test_every_read_is_the_same_even_after_appends(log: PartitionLog) -> None:
    scan = log.scan(10, columns=["offset", "value"])
    assert isinstance(scan, LogScan)
    first = scan.to_table()
    log.append(pa.record_batch({"value": ["later"]}))
    assert first["offset"].to_pylist() == list(range(10, 100))
    for again in (scan.to_table(), pa.table(scan), pa.table(scan), scan.to_reader().read_all()):
        assert again == first
    assert scan.schema == first.schema == log.read(columns=["offset", "value"]).schema
    assert scan.to_pandas()["offset"].tolist() == list(range(10, 100))
    assert log.scan(10, columns=["offset", "value"]).to_table().num_rows == 91


@pytest.mark.parametrize("count", [-1, 4, 2**31 - 1])
def test_a_batch_with_an_impossible_record_count_is_read(tmp_path: Path, count: int) -> None:
    """Counts rely on headers without checking their CRCs."""
    wrong = bytearray(batch(3))
    wrong[57:61] = count.to_bytes(4, "big", signed=True)
    log = PartitionLog.open(write_log(tmp_path / "t-0", {0: [batch(0), bytes(wrong), batch(6)]}))
    with pytest.raises(CorruptRecordError, match="position 145, offset 3"):
        log.scan().count_rows()
    assert log.scan(mode="dropMalformed").count_rows() == 6


def test_read_is_a_single_read_of_a_scan(log: PartitionLog) -> None:
    assert log.scan().to_table() == log.read().read_all()
    assert log.scan(5, 8, ["offset"], max_rows=1).to_table() == log.read(5, 8, ["offset"]).read_all()


def test_streams_of_a_scan_are_independent(log: PartitionLog) -> None:
    """DuckDB opens several readers for a join of a scan with itself."""
    scan = log.scan(columns=["offset"])
    stream, other = (pa.RecordBatchReader.from_stream(scan) for _ in range(2))
    first = next(stream)
    assert other.read_all()["offset"].to_pylist() == list(range(100))
    assert first.num_rows + stream.read_all().num_rows == 100


def test_invalid_arguments_are_rejected_before_reading(log: PartitionLog) -> None:
    with pytest.raises(ValueError, match="unknown column 'offse'"):
        log.scan(columns=["offse"])
    with pytest.raises(ValueError, match="mode: expected one of"):
        log.scan(mode="lenient")  # type: ignore[arg-type]
    with pytest.raises(OffsetOutOfRangeError):
        log.scan(start_offset=101)
