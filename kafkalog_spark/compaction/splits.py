"""How the work on large partitions is cut: splits to read, bundles of keys to merge, groups to write.

Decisions only, but for a look into a log where to cut it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_spark.compaction.messages import LargePartition, Part, Split
from native_log.log.producers.transactions import pack_ranges, unpack_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.compaction.rounds import Round

SURVEY_BYTES = 1 << 30
"""How much of a log one task surveys; it passes over some gigabytes a second."""
SPLIT_BYTES = 512 << 20
"""How much of a log one task gathers keys from."""
PACKED_BYTES = 32
"""About what a key and its offset take, packed."""
LEAST_RECORD_BYTES = 8
KEYS_A_BUCKET = 128 << 10
"""Few enough that what a bucket is merged in stays in a CPU's cache."""
MOST_BUCKETS = 1 << 16


@dataclass(frozen=True, slots=True)
class Job:
    """A round among those of a run. Bundles and groups are numbered through all of them.

    Attributes:
        is_surveyed: the round is planned by all that the headers say. Else its transactions, which it has
            none of as a rule, and its producers are yet to be found.
        bundles: of buckets of keys; one is merged by one task.
        buckets: in each bundle.
    """

    large_partition: LargePartition
    round: Round
    is_surveyed: bool
    first_bundle: int
    bundles: int
    buckets: int
    first_group: int

    @property
    def borders(self) -> list[int]:
        """The base offsets of its groups, and its end."""
        return [group.base_offset for group in self.round.groups] + [self.round.end_offset]


def jobs(
    rounds: Sequence[tuple[LargePartition, Round | None]], cores: int, bundle_bytes: int | None = None
) -> list[Job]:
    """Of partitions and, where they were surveyed, the rounds planned for them.

    All cores have something to merge.

    Args:
        bundle_bytes: about the most that a bundle may take; None: no matter.
    """
    found = []
    bundle = group = 0
    of_cores = -(-2 * cores // max(1, len(rounds)))
    for large_partition, surveyed in rounds:
        round = large_partition.plain if surveyed is None else surveyed
        records = most_records(round)
        buckets = -(-records // KEYS_A_BUCKET)
        bundles = max(1, min(of_cores, buckets))
        if bundle_bytes is not None:
            bundles = max(bundles, -(-records * PACKED_BYTES // bundle_bytes))
        bundles = min(bundles, MOST_BUCKETS)
        each = max(1, min(MOST_BUCKETS // bundles, -(-buckets // bundles)))
        found.append(Job(large_partition, round, surveyed is not None, bundle, bundles, each, group))
        bundle += bundles
        group += len(round.groups)
    return found


def most_records(round: Round) -> int:
    """About how many a round has at most: the clean part, whose offsets are sparse, as many to the byte as
    the dirty one."""
    first = round.groups[0].base_offset
    clean_bytes, dirty_bytes = round.clean_part().size_bytes, round.dirty_part().size_bytes
    dirty = round.end_offset - max(first, round.first_dirty_offset)
    by_offsets = min(round.end_offset - first, dirty + dirty * clean_bytes // max(1, dirty_bytes))
    return min(by_offsets, (clean_bytes + dirty_bytes) // LEAST_RECORD_BYTES)


def work(job: Job, number: int, split_bytes: int) -> list[Split | Part]:
    """All that keys are gathered from, and what else is to be surveyed, in the order of the log."""
    found: list[Split | Part] = list(splits(job, number, split_bytes))
    if not job.is_surveyed:
        sizes = job.large_partition.segments
        end = next(i for i, (base, _) in enumerate(sizes) if base == job.round.end_offset)
        found += parts(job.large_partition, number, SURVEY_BYTES, end, len(found))
    return found


def parts(
    large_partition: LargePartition, number: int, most_bytes: int, first: int = 0, place: int = 0
) -> Iterator[Part]:
    """Consecutive segments together, while they have no more than `most_bytes`: all from `first` on."""
    start, filled = first, 0
    for index, (_, size_bytes) in enumerate(large_partition.segments[first:], first):
        if filled and filled + size_bytes > most_bytes:
            yield Part(number, place, large_partition.directory, start, index, filled)
            start, filled, place = index, 0, place + 1
        filled += size_bytes
    yield Part(number, place, large_partition.directory, start, len(large_partition.segments), filled)


def splits(job: Job, number: int, split_bytes: int) -> Iterator[Split]:
    """Those of the clean part first."""
    round = job.round
    triples = unpack_ranges(round.aborted)
    place = 0
    for is_dirty, start, end in (
        (False, 0, round.first_dirty_offset),
        (True, round.first_dirty_offset, round.end_offset),
    ):
        whole = round.part(start, end)
        for range in whole.split(split_bytes) if whole.size_bytes else ():
            aborted = (one for one in triples if one[1] < range.end_offset and one[2] >= range.start_offset)
            yield Split(
                number,
                place,
                range,
                is_dirty,
                pack_ranges(aborted) if job.is_surveyed else None,
                job.first_bundle,
                job.bundles,
                job.buckets,
            )
            place += 1
