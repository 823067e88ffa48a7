"""How a round over a large partition is planned, by several tasks: headers are surveyed by parts of the log.

Also how its work is cut: into splits to read, bundles of keys to merge, groups to write.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkalog_spark.compaction.values import Planned
from kafkalog_spark.spreading import row, rows
from native_log.cleaner.plan import plan_round
from native_log.cleaner.survey import Survey, survey
from native_log.errors import KafkaLogError
from native_log.log.transactions import packed_ranges, unpacked_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkalog_spark.compaction.values import Looked, Settings
    from kafkalog_spark.views import PartitionDirectory
    from native_log.cleaner.plan import Round
    from native_log.log import LogRange

SURVEY_BYTES = 1 << 30
"""How much of a log one task surveys; it passes over some gigabytes a second."""
SPLIT_BYTES = 256 << 20
"""How much of a log one task gathers keys from."""
PACKED_BYTES = 32
"""About what a key and its offset take, packed."""
KEYS_A_BUCKET = 128 << 10
"""Few enough that what a bucket is merged in stays in a CPU's cache."""
MOST_BUCKETS = 1 << 16


@dataclass(frozen=True, slots=True)
class Part:
    """Segments first <= index < end of a partition, to be surveyed. `partition` numbers those of the run."""

    partition: int
    directory: PartitionDirectory
    first: int
    end: int
    size_bytes: int


def parts(large: Sequence[Looked], most_bytes: int) -> Iterator[Part]:
    """Consecutive segments together, while they have no more than `most_bytes`."""
    for number, looked in enumerate(large):
        first = filled = 0
        for index, (_, size_bytes) in enumerate(looked.segments):
            if filled and filled + size_bytes > most_bytes:
                yield Part(number, looked.directory, first, index, filled)
                first, filled = index, 0
            filled += size_bytes
        yield Part(number, looked.directory, first, len(looked.segments), filled)


def survey_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lists of Part -> a Survey, or an error's text, by number of partition; part: its first segment + 1."""
    for asked in rows(batches):
        chosen: list[Part] = pickle.loads(asked.payload)  # noqa: S301 (the driver's own)
        for part in chosen:
            found: Survey | str
            try:
                found = survey(part.directory.open(), part.first, part.end)
            except (KafkaLogError, OSError) as error:
                found = str(error)
            yield row(part.partition, pickle.dumps(found), part.first + 1)


def plan_rounds(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """By number of partition, what is to be cleaned (Looked; part 0) and its surveys (other parts), all in
    one task -> a round (Planned) each."""
    by_partition: dict[int, list[tuple[int, Any]]] = {}
    for number, part, payload, _ in rows(batches):
        by_partition.setdefault(number, []).append((part, pickle.loads(payload)))  # noqa: S301 (our own)
    for number, found in by_partition.items():
        (_, looked), *surveys = sorted(found, key=lambda one: one[0])
        planned = _planned(looked, [one for _, one in surveys], settings)
        yield row(number, pickle.dumps(planned))


def _planned(looked: Looked, surveys: Sequence[Survey | str], settings: Settings) -> Planned:
    joined = Survey()
    for found in surveys:
        if isinstance(found, str):
            return Planned(None, 0, found)
        joined.add(found)
    assert looked.found is not None
    try:
        log = looked.directory.open()
        round = plan_round(log, looked.found, settings.config, settings.now_ms, surveyed=joined)
    except (KafkaLogError, OSError) as error:
        return Planned(None, 0, str(error))
    return Planned(round, joined.records)


@dataclass(frozen=True, slots=True)
class Job:
    """A round among those of a run. Bundles and groups are numbered through all of them.

    Attributes:
        bundles: of buckets of keys; one is merged by one task.
        buckets: in each bundle.
    """

    round: Round
    first_bundle: int
    bundles: int
    buckets: int
    first_group: int

    @property
    def borders(self) -> list[int]:
        """The base offsets of its groups, and its end."""
        return [group.base_offset for group in self.round.groups] + [self.round.end_offset]


def jobs(planned: Sequence[tuple[Round, int]], dedupe_bytes: int, cores: int) -> list[Job]:
    """Of rounds and how many records each is over.

    A bundle fits in memory as the keys of a split do; all cores have something to merge.
    """
    found = []
    bundle = group = 0
    of_cores = -(-2 * cores // max(1, len(planned)))
    for round, records in planned:
        buckets = -(-records // KEYS_A_BUCKET)
        bundles = max(1, min(of_cores, buckets), -(-records * PACKED_BYTES // dedupe_bytes))
        bundles = min(bundles, MOST_BUCKETS)
        each = max(1, min(MOST_BUCKETS // bundles, -(-buckets // bundles)))
        found.append(Job(round, bundle, bundles, each, group))
        bundle += bundles
        group += len(round.groups)
    return found


@dataclass(frozen=True, slots=True)
class Split:
    """Part of a round to gather keys from. `aborted`: the transactions that may have data in it."""

    range: LogRange
    is_dirty: bool
    aborted: bytes
    first_bundle: int
    bundles: int
    buckets: int


def splits(job: Job, split_bytes: int) -> Iterator[Split]:
    round = job.round
    triples = unpacked_ranges(round.aborted)
    for is_dirty, start, end in (
        (True, round.first_dirty_offset, round.end_offset),
        (False, 0, round.first_dirty_offset),
    ):
        whole = round.part(start, end)
        for range in whole.split(split_bytes) if whole.size_bytes else ():
            aborted = (one for one in triples if one[1] < range.end_offset and one[2] >= range.start_offset)
            yield Split(range, is_dirty, packed_ranges(aborted), job.first_bundle, job.bundles, job.buckets)


def group_rounds(job: Job) -> Iterator[tuple[int, Round]]:
    """The round cut down to each of its groups, by the group's number."""
    for number, group in enumerate(job.round.groups, job.first_group):
        yield number, replace(job.round, groups=(group,), aborted=b"")
