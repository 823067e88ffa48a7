"""Decide how the work on large partitions is divided: splits to read, bundles to merge, groups to rewrite.

These functions are pure, except that splitting a range reads headers to find the boundaries of batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_spark.compaction.messages import KeySplit, LargePartition, SurveyPart
from native_log.log.producers.transactions import pack_ranges, unpack_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.compaction.rounds import Round

SURVEY_BYTES = 1 << 30
"""How many bytes of a log one task surveys. It surveys several gigabytes a second."""
SPLIT_BYTES = 512 << 20
"""The size of the range of a log from which one task collects keys."""
PACKED_KEY_BYTES = 32
"""The estimated size of a packed key with its offset."""
MIN_RECORD_BYTES = 8
KEYS_PER_BUCKET = 128 << 10
"""Few enough that the hash table in which a bucket is merged stays in a CPU's cache."""
MAX_BUCKETS = 1 << 16


@dataclass(frozen=True, slots=True)
class ScheduledRound:
    """A round of this run. Bundles and groups are numbered through all rounds of the run.

    Attributes:
        is_surveyed: whether the round was planned with a survey of the whole log. Otherwise it is
            provisional: it assumes that there are no transactions, and the headers are surveyed while keys
            are collected.
        first_bundle, bundles: the number of the first bundle, and how many there are. One task merges a
            bundle.
        buckets: the number of buckets in each bundle.
        first_group: the number of the first group.
    """

    large_partition: LargePartition
    round: Round
    is_surveyed: bool
    first_bundle: int
    bundles: int
    buckets: int
    first_group: int

    @property
    def bounds(self) -> list[int]:
        """The base offsets of the round's groups, and the end offset of the round."""
        return [group.base_offset for group in self.round.groups] + [self.round.end_offset]


def schedule_rounds(
    rounds: Sequence[tuple[LargePartition, Round | None]], cores: int, max_bundle_bytes: int | None = None
) -> list[ScheduledRound]:
    """Decide into how many bundles and buckets the keys of each round are divided.

    There are enough bundles that all cores have something to merge.

    Args:
        rounds: the partitions, each with its round if the log was surveyed, else None.
        max_bundle_bytes: the approximate maximum size of a bundle; None: no maximum.
    """
    scheduled = []
    first_bundle = first_group = 0
    bundles_for_cores = -(-2 * cores // max(1, len(rounds)))
    for large_partition, surveyed_round in rounds:
        round = large_partition.provisional_round if surveyed_round is None else surveyed_round
        records = max_records(round)
        buckets = -(-records // KEYS_PER_BUCKET)
        bundles = max(1, min(bundles_for_cores, buckets))
        if max_bundle_bytes is not None:
            bundles = max(bundles, -(-records * PACKED_KEY_BYTES // max_bundle_bytes))
        bundles = min(bundles, MAX_BUCKETS)
        buckets_per_bundle = max(1, min(MAX_BUCKETS // bundles, -(-buckets // bundles)))
        scheduled.append(
            ScheduledRound(
                large_partition,
                round,
                surveyed_round is not None,
                first_bundle,
                bundles,
                buckets_per_bundle,
                first_group,
            )
        )
        first_bundle += bundles
        first_group += len(round.groups)
    return scheduled


def max_records(round: Round) -> int:
    """Estimate the maximum number of records in a round.

    The offsets in the clean part have gaps. The estimate assumes that the clean part has as many records per
    byte as the dirty part.
    """
    first = round.groups[0].base_offset
    clean_bytes, dirty_bytes = round.clean_range().size_bytes, round.dirty_range().size_bytes
    dirty = round.end_offset - max(first, round.first_dirty_offset)
    by_offsets = min(round.end_offset - first, dirty + dirty * clean_bytes // max(1, dirty_bytes))
    return min(by_offsets, (clean_bytes + dirty_bytes) // MIN_RECORD_BYTES)


def divide_round(scheduled: ScheduledRound, row_number: int, split_bytes: int) -> list[KeySplit | SurveyPart]:
    """Divide the reading of a round into tasks, in offset order.

    Args:
        row_number: the number of the rows in which the tasks report.
    """
    tasks: list[KeySplit | SurveyPart] = list(_splits(scheduled, row_number, split_bytes))
    if not scheduled.is_surveyed:
        segments = scheduled.large_partition.segments
        end = next(i for i, (base, _) in enumerate(segments) if base == scheduled.round.end_offset)
        tasks += divide_survey(scheduled.large_partition, row_number, SURVEY_BYTES, end, len(tasks))
    return tasks


def divide_survey(
    large_partition: LargePartition, row_number: int, max_bytes: int, first: int = 0, row_part: int = 0
) -> Iterator[SurveyPart]:
    """Divide the segments from index `first` on into parts of at most `max_bytes`.

    A larger segment is a part of its own. The parts are numbered from `row_part` on.
    """
    start, size = first, 0
    for index, (_, segment_bytes) in enumerate(large_partition.segments[first:], first):
        if size and size + segment_bytes > max_bytes:
            yield SurveyPart(row_number, row_part, large_partition.directory, start, index, size)
            start, size, row_part = index, 0, row_part + 1
        size += segment_bytes
    end = len(large_partition.segments)
    yield SurveyPart(row_number, row_part, large_partition.directory, start, end, size)


def _splits(scheduled: ScheduledRound, row_number: int, split_bytes: int) -> Iterator[KeySplit]:
    """Yield the splits of the clean part, then those of the dirty part."""
    round = scheduled.round
    aborted = unpack_ranges(round.aborted)
    row_part = 0
    for is_dirty, start, end in (
        (False, 0, round.first_dirty_offset),
        (True, round.first_dirty_offset, round.end_offset),
    ):
        whole = round.log_range(start, end)
        for range in whole.split(split_bytes) if whole.size_bytes else ():
            aborted_here = (
                (producer_id, first, last)
                for producer_id, first, last in aborted
                if first < range.end_offset and last >= range.start_offset
            )
            yield KeySplit(
                row_number,
                row_part,
                range,
                is_dirty,
                pack_ranges(aborted_here) if scheduled.is_surveyed else None,
                scheduled.first_bundle,
                scheduled.bundles,
                scheduled.buckets,
            )
            row_part += 1
