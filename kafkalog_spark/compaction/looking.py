"""Tasks that look into partitions, and clean those that one task can."""

from __future__ import annotations

import pickle
import socket
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog_spark.compaction.values import Looked, Staged, failed
from kafkalog_spark.spreading import row, rows
from native_log.cleaner import statistics
from native_log.cleaner.local import not_worth_it
from native_log.cleaner.plan import plan_round, what_is_cleanable
from native_log.cleaner.rewriting import gather, rewrite_group
from native_log.cleaner.swap import STAGING_DIRECTORY
from native_log.errors import KafkaLogError
from native_log.records import OffsetMap
from native_log.segment.files import CLEANED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.compaction.values import Settings, Task
    from kafkalog_spark.views import PartitionDirectory
    from native_log.cleaner.eligibility import Cleanable
    from native_log.cleaner.plan import Round
    from native_log.records import MapProgress
    from native_log.records.cleaning import Survivors


def look(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """Tasks -> what each partition came to (Looked)."""
    for asked in rows(batches):
        task: Task = pickle.loads(asked.payload)  # noqa: S301 (the driver's own)
        for directory in task.directories:
            found = look_at(directory, settings, whole=task.whole)
            yield row(asked.number, pickle.dumps(found))


def look_at(directory: PartitionDirectory, settings: Settings, *, whole: bool) -> Looked:
    if not Path(directory.path).is_dir():
        return Looked(directory, invisible_from=socket.gethostname())
    try:
        log = directory.open()
        found = what_is_cleanable(log, settings.config, settings.now_ms)
        if not found.is_candidate(settings.config):
            return Looked(directory, statistics=not_worth_it(log, found, settings.config))
        if whole:
            round = plan_round(log, found, settings.config, settings.now_ms)
            cleaned = _cleaned(round, directory, found, settings)
            if cleaned is not None:
                return cleaned
        segments = tuple((segment.base_offset, segment.size_bytes) for segment in log.segments)
        return Looked(directory, found=found, segments=segments)
    except (KafkaLogError, OSError) as error:
        return Looked(directory, statistics=failed(directory, error))


def _cleaned(
    round: Round, directory: PartitionDirectory, found: Cleanable, settings: Settings
) -> Looked | None:
    """None if its keys do not fit in the memory of one task."""
    keys = _find_survivors(round, settings.config.log_cleaner_dedupe_buffer_size)
    if keys is None:
        return None
    survivors, null_keys = keys
    stats, staged = statistics.GroupStatistics(), []
    for group in round.groups:
        attempt = staging(round.path, settings)
        stats += rewrite_group(round, group, survivors, round.end_offset, attempt, CLEANED)
        if attempt is not None:
            staged.append(Staged(group, attempt.name))
    was_cleaned = directory.checkpoints.first_dirty_offset is not None
    told = statistics.cleaned(round, found, stats, null_keys, was_cleaned)
    return Looked(directory, statistics=told, staged=tuple(staged))


def _find_survivors(round: Round, max_bytes: int) -> tuple[Survivors, int] | None:
    """The offsets that survive, and how many records have no key; None if the keys take more than that."""
    offsets = OffsetMap(max_bytes)
    dirty = gather(round.part(round.first_dirty_offset, round.end_offset), round.aborted, offsets.put_batches)
    if dirty.full_at is not None:
        return None
    survivors = offsets.survivors()
    gather(round.part(0, round.first_dirty_offset), round.aborted, partial(_mark, offsets, survivors))
    return survivors, dirty.null_keys


def _mark(offsets: OffsetMap, survivors: Survivors, buffer: memoryview, **where: Any) -> MapProgress:
    return offsets.mark(buffer, survivors, **where)


def staging(path: str, settings: Settings) -> Path | None:
    """A directory of this attempt's own.

    Of a task tried again, or tried twice at a time, the driver takes one attempt and leaves the other's
    files, which go with the staging directory.
    """
    if settings.dry_run:
        return None
    attempt = Path(path, STAGING_DIRECTORY, uuid.uuid4().hex)
    attempt.mkdir(parents=True)
    return attempt
