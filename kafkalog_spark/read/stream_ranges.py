"""Decide what a micro-batch reads, and what was lost since the one before. Pure.

The checks are those of Spark's kafka source (KafkaOffsetReaderAdmin.getOffsetRangesFromResolvedOffsets).
Names in capitals in messages are Spark's error conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_spark.read.offsets import OffsetRange, partition_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_spark.options.offset_json import TopicPartition


def micro_batch_ranges(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    available: Mapping[TopicPartition, OffsetRange],
    report_loss: Callable[[str], None],
) -> list[OffsetRange]:
    """Return the offsets that a micro-batch reads, by topic and partition. No range is empty.

    New partitions are read from the start of their logs.

    Args:
        starts, ends: the offsets of the micro-batch.
        available: the offsets that the logs hold.
        report_loss: called with each kind of data loss, in words. It may raise an error.
    """
    new = sorted(ends.keys() - starts.keys())
    if unknown := [tp for tp in new if tp not in available]:
        report_loss(
            "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS: the new partitions "
            f"{partition_names(unknown)} were removed before they were read"
        )
    firsts = {tp: available[tp].start for tp in new if tp in available}
    for tp, first in firsts.items():
        if first:
            report_loss(
                f"KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: the new partition {tp} "
                f"starts at offset {first}, expected 0: the offsets before it were removed unread"
            )
    if deleted := starts.keys() - ends.keys():
        report_loss(
            f"KAFKA_DATA_LOSS.PARTITIONS_DELETED: {partition_names(deleted)} were read before and do not "
            "exist any more, or the topic options do not select them any more"
        )
    ranges = []
    for tp in sorted(ends):
        start = starts.get(tp, firsts.get(tp))
        if start is None:
            continue
        if ends[tp] < start:
            report_loss(
                f"KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED: {tp} is to be read from offset {start}, but it "
                f"ends at {ends[tp]}: the starting offset is beyond the end, the topic was created again, or "
                "the log was truncated"
            )
        elif ends[tp] > start:
            ranges.append(OffsetRange(*tp, start, ends[tp]))
    return ranges
