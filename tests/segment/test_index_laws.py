"""Indexes that are written or rebuilt are equal to those that brokers wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from native_log.config import LogConfig
from native_log.log.listing import list_log
from native_log.records import MAX_BATCH_BYTES
from native_log.segment.indexing import IndexState, index_entries
from native_log.segment.rebuild import rebuild
from tests.builders.golden import GOLDEN, GoldenPartition, golden_id, golden_partitions

if TYPE_CHECKING:
    import pyarrow as pa

    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile

# A restarted broker began a new interval between entries; a killed one wrote no last time index entry.
SKIPPED = ("corrupt-", "torn-", "crash", "round2-", "round3-", "whole-broker")
PARTITIONS = [
    partition
    for partition in golden_partitions()
    if partition.fixture.startswith(("kafka-4.1", "kafka-3.9"))
    and not any(name in partition.fixture for name in SKIPPED)
]


def interval(partition: GoldenPartition) -> int:
    expected = json.loads((GOLDEN / partition.fixture / "expected.json").read_text())
    return LogConfig.parse(expected["topics"][partition.topic]["config"]).index_interval_bytes


def broker_indexes(segment: LogSegment) -> tuple[bytes, bytes]:
    """Return offset index and time index, without the zeros after the entries of an active segment."""
    index, times = segment.load_offset_index().file, segment.load_time_index().file
    return index.data[: 8 * len(index)], times.data[: 12 * len(times)]


@pytest.mark.parametrize("partition", PARTITIONS, ids=golden_id)
def test_written_and_rebuilt_indexes_equal_those_of_the_broker(partition: GoldenPartition) -> None:
    interval_bytes = interval(partition)
    for segment in list_log(str(partition.path), MAX_BATCH_BYTES).segments:
        state, written = IndexState(-1, segment.base_offset), (b"", b"")

        def append_one_by_one(_: DataFile, batches: pa.RecordBatch, segment: LogSegment = segment) -> None:
            nonlocal state, written
            for index in range(batches.num_rows):
                entry, time_entry, state = index_entries(
                    batches.slice(index, 1),
                    state,
                    base_offset=segment.base_offset,
                    position=batches.column("position")[index].as_py(),
                    interval_bytes=interval_bytes,
                    room=1000,
                )
                written = written[0] + entry, written[1] + time_entry

        _, rebuilt = rebuild(segment, interval_bytes, append_one_by_one)
        brokers = broker_indexes(segment)
        assert (rebuilt.offset_index, rebuilt.time_index) == brokers, segment.log
        last = state.last_time_entry(segment.base_offset)
        assert (written[0], written[1] + last) == brokers, segment.log
