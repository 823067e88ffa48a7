"""The tasks of a compaction: each takes rows of plain values and gives such, by mapInArrow.

    look    partitions           -> what is to be done; small ones are done at once
    gather  splits               -> packed keys and offsets by bucket
    merge   packs, by bucket     -> survivors by group of segments
    rewrite survivors, by group  -> new segments in a staging directory

Whatever a task writes has a name of its own attempt: of a task tried again, or tried twice at a time, the
driver takes one attempt and leaves the other's files, which go with the staging directory.
"""

from __future__ import annotations

import pickle
import socket
import uuid
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.cleaner import statistics
from native_log.cleaner.local import find_survivors, not_worth_it
from native_log.cleaner.plan import Group, Round, plan_round, what_is_cleanable
from native_log.cleaner.rewriting import gather, rewrite_group
from native_log.cleaner.swap import STAGING_DIRECTORY
from native_log.errors import KafkaLogError
from native_log.records import KeyOffsets, OffsetMap, RewriteStats, Survivors, merge
from native_log.segment.files import CLEANED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_spark.views import PartitionDirectory
    from native_log.cleaner.eligibility import Cleanable
    from native_log.cleaner.statistics import PartitionStatistics
    from native_log.config import LogConfig
    from native_log.log import LogRange, PartitionLog


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one run; sent with every task."""

    config: LogConfig
    now_ms: int
    dry_run: bool
    small_bytes: int
    """Logs up to this size are cleaned by one task."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A group, rewritten: its files wait in the directory `attempt` within the staging directory."""

    group: Group
    attempt: str


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at a partition came to.

    `round` and `found` where the work is still to be done; else `statistics`, and what was staged.
    """

    directory: PartitionDirectory
    invisible_from: str | None = None
    statistics: PartitionStatistics | None = None
    staged: tuple[Staged, ...] = ()
    found: Cleanable | None = None
    round: Round | None = None


PAYLOAD = pa.schema([("payload", pa.binary())])


def look(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    for (payload,) in _rows(batches):
        for directory in pickle.loads(payload):  # noqa: S301 (the driver's own)
            yield row(PAYLOAD, pickle.dumps(_look_at(directory, settings)))


def _look_at(directory: PartitionDirectory, settings: Settings) -> Looked:
    if not Path(directory.path).is_dir():
        return Looked(directory, invisible_from=socket.gethostname())
    try:
        log = directory.open()
        found = what_is_cleanable(log, settings.config, settings.now_ms)
        if not found.is_candidate(settings.config):
            return Looked(directory, statistics=not_worth_it(log, found, settings.config))
        round = plan_round(log, found, settings.config, settings.now_ms)
        if sum(group.size_bytes for group in round.groups) > settings.small_bytes:
            return Looked(directory, found=found, round=round)
        return _clean_whole(log, directory, found, round, settings)
    except (KafkaLogError, OSError) as error:
        return Looked(directory, statistics=failed(directory.topic, directory.partition, error))


def _clean_whole(
    log: PartitionLog, directory: PartitionDirectory, found: Cleanable, round: Round, settings: Settings
) -> Looked:
    survivors, end_offset, null_keys = find_survivors(round, settings.config.log_cleaner_dedupe_buffer_size)
    if end_offset < round.end_offset:
        round = plan_round(log, found, settings.config, settings.now_ms, end_offset)
    stats, staged = RewriteStats(), []
    for group in round.groups:
        attempt = staging(round.path, settings)
        stats += rewrite_group(round, group, survivors, end_offset, attempt, CLEANED)
        if attempt is not None:
            staged.append(Staged(group, attempt.name))
    told = statistics.cleaned(
        round.topic,
        round.partition,
        found,
        end_offset=end_offset,
        segments=(sum(len(group.sources) for group in round.groups), len(round.groups)),
        rewritten=stats,
        null_keys=null_keys,
    )
    return Looked(directory, statistics=told, staged=tuple(staged))


def staging(path: str, settings: Settings) -> Path | None:
    """A directory of this attempt's own."""
    if settings.dry_run:
        return None
    attempt = Path(path, STAGING_DIRECTORY, uuid.uuid4().hex)
    attempt.mkdir(parents=True)
    return attempt


def failed(topic: str, partition: int, error: Exception | str) -> PartitionStatistics:
    return statistics.PartitionStatistics(topic, partition, "failed", str(error))


@dataclass(frozen=True, slots=True)
class Split:
    """Part of a round to gather keys from. `aborted`: the transactions that may have data in it."""

    round: int
    range: LogRange
    is_dirty: bool
    aborted: bytes
    buckets: int


PACKS = pa.schema(
    [
        ("round", pa.int32()),
        ("bucket", pa.int32()),
        ("pack", pa.binary()),
        ("nullKeys", pa.int64()),
        ("error", pa.string()),
    ]
)
PACKS_DDL = "round int, bucket int, pack binary, nullKeys bigint, error string"


def gather_keys(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterator[pa.RecordBatch]:
    for (payload,) in _rows(batches):
        split: Split = pickle.loads(payload)  # noqa: S301 (the driver's own)
        try:
            yield from _packs(split, max_bytes)
        except (KafkaLogError, OSError) as error:
            yield row(PACKS, split.round, 0, None, 0, str(error))


def _packs(split: Split, max_bytes: int) -> Iterator[pa.RecordBatch]:
    range: LogRange | None = split.range
    while range is not None:
        keys = OffsetMap(max_bytes) if split.is_dirty else KeyOffsets(max_bytes)
        found = gather(range, split.aborted, keys.put_batches)
        if found.full_at is not None and not len(keys):
            raise KafkaLogError(
                f"one key takes more than the map's {max_bytes} bytes: raise log.cleaner.dedupe.buffer.size",
                path=range.path,
                offset=found.full_at,
            )
        null_keys = found.null_keys if split.is_dirty else 0
        if null_keys:
            yield row(PACKS, split.round, 0, None, null_keys, None)
        if len(keys):
            for bucket, pack in enumerate(keys.buckets(split.buckets)):
                yield row(PACKS, split.round, bucket, pack, 0, None)
        range = None if found.full_at is None else _behind(range, found.full_at)


def _behind(range: LogRange, offset: int) -> LogRange:
    """The same bytes, without the records before `offset`: batches before are stepped over."""
    pieces = tuple(replace(piece, min_offset=max(piece.min_offset or 0, offset)) for piece in range.pieces)
    return replace(range, start_offset=offset, pieces=pieces)


SURVIVORS = pa.schema(
    [
        ("round", pa.int32()),
        ("group", pa.int32()),
        ("part", pa.int32()),
        ("payload", pa.binary()),
        ("nullKeys", pa.int64()),
        ("error", pa.string()),
    ]
)
SURVIVORS_DDL = "round int, group int, part int, payload binary, nullKeys bigint, error string"


def merge_packs(batches: Iterator[pa.RecordBatch], borders: dict[int, list[int]]) -> Iterator[pa.RecordBatch]:
    """Takes packs sorted by round and bucket, one bucket after the other in memory.

    Args:
        borders: the base offsets of each round's groups, and its end.
    """
    for (round, bucket), rows in _runs(_rows(batches), 2):
        packs: list[bytes] = []
        for pack, null_keys, error in rows:
            if null_keys or error is not None:
                yield row(SURVIVORS, round, 0, bucket + 1, None, null_keys, error)
            if pack is not None:
                packs.append(pack)
        survivors = merge(packs)
        packs.clear()
        offsets = borders[round]
        for group, (start, end) in enumerate(pairwise(offsets)):
            found = survivors.between(start, end)
            if len(found):
                yield row(SURVIVORS, round, group, bucket + 1, found.to_bytes(), 0, None)


RESULTS = pa.schema([("round", pa.int32()), ("group", pa.int32()), ("payload", pa.binary())])
RESULTS_DDL = "round int, group int, payload binary"


@dataclass(frozen=True, slots=True)
class GroupResult:
    stats: RewriteStats
    staged: Staged | None
    null_keys: int
    error: str | None


def rewrite_groups(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """Takes rows sorted by round, group and part; part 0 of a group is its round with that group alone."""
    for (round_index, group_index), rows in _runs(_rows(batches), 2):
        round: Round | None = None
        found: list[Survivors] = []
        null_keys, error = 0, None
        for part, payload, part_null_keys, part_error in rows:
            null_keys += part_null_keys
            error = error or part_error
            if part == 0:
                round = pickle.loads(payload)  # noqa: S301 (the driver's own)
            elif payload is not None:
                found.append(Survivors.from_bytes(payload))
                if len(found) >= 64:
                    found = [_union(found)]
        assert round is not None
        result = _rewrite(round, _union(found), settings, null_keys, error)
        yield row(RESULTS, round_index, group_index, pickle.dumps(result))


def _union(found: list[Survivors]) -> Survivors:
    return found[0].union(*found[1:]) if found else Survivors()


def _rewrite(
    round: Round, survivors: Survivors, settings: Settings, null_keys: int, error: str | None
) -> GroupResult:
    if error is not None:
        return GroupResult(RewriteStats(), None, null_keys, error)
    (group,) = round.groups
    try:
        attempt = staging(round.path, settings)
        stats = rewrite_group(round, group, survivors, round.end_offset, attempt, CLEANED)
    except (KafkaLogError, OSError) as failure:
        return GroupResult(RewriteStats(), None, null_keys, str(failure))
    return GroupResult(stats, None if attempt is None else Staged(group, attempt.name), null_keys, None)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        for index in range(batch.num_rows):
            yield tuple(column[index].as_py() for column in batch.columns)


def _runs(
    rows: Iterator[tuple[Any, ...]], length: int
) -> Iterator[tuple[tuple[Any, ...], Iterator[tuple[Any, ...]]]]:
    """Rows that are equal in their first columns, together: (those columns, the others of each row)."""
    for key, run in groupby(rows, lambda row: row[:length]):
        yield key, (row[length:] for row in run)


def row(schema: pa.Schema, *values: Any) -> pa.RecordBatch:
    """A batch of one row."""
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
