"""Erase records from logs."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from native_log.compaction.survey import survey_log
from native_log.erasure.copies import (
    PossibleCopy,
    find_hard_links,
    find_possible_copies,
    leftovers,
    list_renamed_partitions,
)
from native_log.erasure.rewrite import erase_records, roll
from native_log.erasure.search import ERASURE_SCHEMA, check_end, search_log
from native_log.erasure.selection import RecordSelection
from native_log.errors import EmptyLogDirError, KafkaLogError, error_message
from native_log.log.changing_files import retry_changed
from native_log.log.replacing.interrupted import finish_interrupted, try_finish_interrupted
from native_log.logdir.maintenance import changeable_topics, open_for_maintenance
from native_log.logdir.selection import filter_partitions
from native_log.outcomes import as_planned
from native_log.progress import Progress
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.system import available_cores
from native_log.workers import worker_threads

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from native_log.erasure.selection import Header, Text
    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir
    from native_log.logdir.selection import PartitionSelection
    from native_log.progress import PartitionProgress
    from native_log.storage import StorageOptionsLike

logger = logging.getLogger(__name__)

HOW = ("drop", "tombstone")
"""The values of `how`: remove the records, or replace them by tombstones."""


def erase(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    *,
    exclude_topics: str | Iterable[str] = (),
    keys: Any = (),
    key_prefix: Text | Iterable[Text] = (),
    header: Header | Iterable[Header] = (),
    how: Literal["drop", "tombstone"] = "drop",
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    storage_options: StorageOptionsLike = None,
) -> pa.Table:
    """Rewrite logs without the records that meet at least one of the conditions.

    All records in the logs' files are searched, including those below the log start offset, of aborted
    transactions, and in the active segment. (If the active segment contains selected records, an empty one is
    rolled first.)

    All other records keep their offsets, timestamps and transactions, and batches keep their producer
    sequence numbers. When this returns, the erased records are gone from these partition directories, and so
    are the leftover files of deleted segments (`.deleted`). A log that was rewritten is searched again; a
    partition in which a selected record is left is reported as failed.

    Copies elsewhere are not changed. The report lists places in the log directories that may contain copies:
    -delete, -stray and -future directories, further directories of a partition, leftovers of unfinished
    writes and of recovery, files that are not Kafka's, other hard links to rewritten or removed files, and
    tiered storage. It does so even if a topic has no other directory. Other replicas, backups and log
    directories that `path` does not name are not known here.

    Args:
        path: log directories, or single partition directories, including -delete, -stray and -future
            directories. No broker may be running on them.
        topics: the topics to search; None: all except Kafka's internal topics.
        exclude_topics: topics to leave out, even if `topics` names them.
        keys: whole keys as text or bytes: a single key, an iterable, an Arrow array, or a table or DataFrame
            with one column (pyarrow, pandas, polars, Spark, ...). Nulls are ignored.
        key_prefix: one key prefix or several.
        header: a header name or (name, value), or several of them.
        how: "drop" removes the records. "tombstone" keeps their offsets and keys, and removes their values
            and headers, as if the records had been deleted. Consumers and compaction then see the deletion,
            but the keys can still be read. Records without value and headers are not changed or reported.
        dry_run: change nothing, and report what would be erased.
        on_progress: called with (steps done, total steps), from any thread.
        storage_options: credentials and other settings for paths that are URLs, where only a dry run is
            possible: see LogDir.

    Returns:
        The report (ERASURE_SCHEMA). It contains the SHA-256 of keys, but no keys. A key that can be guessed,
        such as a customer's number, can be found by its SHA-256: treat the report as personal data.

    Raises:
        ValueError: no condition, an invalid condition, or an invalid `how`.
        LogDirInUseError: a broker or another writer is using the directory.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    if how not in HOW:
        raise ValueError(f"how: expected drop or tombstone, found {how!r}")
    selection = changeable_topics(topics, exclude_topics)
    run = _ErasureRun(RecordSelection.of(keys, key_prefix, header), how == "tombstone", dry_run)
    with open_for_maintenance(path, dry_run, allow_empty=True, storage_options=storage_options) as log_dir:
        selected = _select(log_dir, selection)
        progress = Progress(on_progress, len(selected))
        threads = min(log_dir.waiting_readers(selected) or available_cores(), len(selected))
        with worker_threads(threads, "erase", progress) as pool:
            reports = list(pool.map(partial(_erase_partition, log_dir, run, progress), selected))
        copies = _copies(find_possible_copies(log_dir, selected, selection))
    if not selected and not copies.num_rows and not log_dir.partitions():
        paths = ", ".join(map(str, log_dir.paths))
        raise EmptyLogDirError("expected partitions to erase records from, found none", path=paths)
    report = pa.concat_tables([*reports, copies])
    return as_planned(report, "status", ("erased", "removed")) if dry_run else report


def _select(log_dir: LogDir, selection: PartitionSelection) -> list[PartitionDir]:
    """Return the partitions to search.

    A topic may be named even if it has only -delete, -stray or -future directories that are not read: the
    report lists them.
    """
    readable = log_dir.partitions()
    existing = [*readable, *list_renamed_partitions(log_dir)]
    selected = frozenset(filter_partitions(existing, selection, paths=log_dir.paths))
    return [directory for directory in readable if directory in selected]


@dataclass(frozen=True, slots=True)
class _ErasureRun:
    selection: RecordSelection
    tombstone: bool
    dry_run: bool


@dataclass(slots=True)
class _Found:
    """What was found in one partition.

    Attributes:
        records: the selected records (ERASURE_SCHEMA).
        leftovers: leftover files of segments (ERASURE_SCHEMA).
        linked: the files, of those to rewrite or remove, that have other names.
        rewritten: the names of segments that were rewritten.
    """

    records: pa.Table = field(default_factory=lambda: _table([]))
    leftovers: pa.Table = field(default_factory=lambda: _table([]))
    linked: list[PossibleCopy] = field(default_factory=list)
    rewritten: set[str] = field(default_factory=set)

    def report(self) -> pa.Table:
        return pa.concat_tables([self.records, self.leftovers, _copies(self.linked)])

    def report_of_failure(self, failure: pa.Table) -> pa.Table:
        is_erased = pc.is_in(self.records.column("segment"), pa.array(self.rewritten, pa.string()))
        return pa.concat_tables(
            [self.records.filter(is_erased), self.leftovers, _copies(self.linked), failure]
        )


def _erase_partition(
    log_dir: LogDir, run: _ErasureRun, progress: Progress, directory: PartitionDir
) -> pa.Table:
    """Erase the selected records of one partition. Return its part of the report."""
    own = progress.partition()
    found = _Found()
    try:
        if run.dry_run:  # a broker may be changing the log
            retry_changed(lambda: _find(log_dir, run, own, directory, found))
            return found.report()
        log = _find(log_dir, run, own, directory, found)
        if found.records.num_rows:
            _rewrite_segments(log, found.records, run.tombstone, found.rewritten.add)
            _check_erased(log_dir, run, directory)
        return found.report()
    except (KafkaLogError, OSError) as error:
        if run.dry_run and directory.folder.was_removed():
            return _table([])
        logger.warning(
            "erasure from %s-%d failed: %s", directory.topic, directory.partition, error_message(error)
        )
        if not run.dry_run:
            try_finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
        return found.report_of_failure(
            _table([_row(directory, status="failed", reason=error_message(error))])
        )
    finally:
        own.end()


def _find(
    log_dir: LogDir, run: _ErasureRun, progress: PartitionProgress, directory: PartitionDir, found: _Found
) -> PartitionLog:
    """Find the selected records of a partition, and all files that may have some. Return its log."""
    paths = leftovers(directory.folder)
    found.linked = list(find_hard_links(directory, paths))
    if not run.dry_run:
        finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
    found.leftovers = _table(
        _row(directory, segment=path, status="removed", reason="leftover file of a segment") for path in paths
    )
    log = log_dir.partition(directory.topic, directory.partition)
    progress.begin(log.size_bytes)
    if not _is_in_use(log_dir, directory):
        check_end(log)
    found.records = pa.Table.from_batches(
        search_log(log, run.selection, run.tombstone, progress.add), ERASURE_SCHEMA
    )
    if found.records.num_rows:
        survey_log(log)  # raises an error if a header is damaged
        names = pc.unique(found.records.column("segment")).to_pylist()
        found.linked += find_hard_links(directory, [f"{directory.path}/{name}" for name in names])
    return log


def _is_in_use(log_dir: LogDir, directory: PartitionDir) -> bool:
    """Return whether a broker, which may be writing the last batch, has the log directory open.

    Then this is a dry run.
    """
    holders = {state.path: state.lock_holder for state in log_dir.directories}
    return holders[directory.path.parent] is not None


def _check_erased(log_dir: LogDir, run: _ErasureRun, directory: PartitionDir) -> None:
    """Search a rewritten log again. Raise KafkaLogError if a selected record is left."""
    log = log_dir.partition(directory.topic, directory.partition)
    left = [
        offset
        for rows in search_log(log, run.selection, run.tombstone)
        for offset in rows["offset"].to_pylist()
    ]
    if left:
        raise KafkaLogError(
            f"expected no selected record after the log was rewritten, found {len(left)}, the first at "
            f"offset {left[0]}; erase again",
            path=log.path,
            offset=left[0],
        )


def _rewrite_segments(
    log: PartitionLog, records: pa.Table, tombstone: bool, on_rewritten: Callable[[str], None]
) -> None:
    """Rewrite the segments that contain the records.

    Args:
        records: ERASURE_SCHEMA.
        on_rewritten: called with the file name of each segment that was rewritten.
    """
    offsets: dict[str, list[int]] = {}
    rows = (records.column(name).to_pylist() for name in ("segment", "offset"))
    for name, offset in zip(*rows, strict=True):
        offsets.setdefault(name, []).append(offset)
    if log.segments[-1].log in offsets:
        roll(log)
    for segment in log.segments:
        if segment.log in offsets:
            erase_records(log, segment, offsets[segment.log], tombstone)
            on_rewritten(segment.log)


def _copies(copies: Iterable[PossibleCopy]) -> pa.Table:
    return _table(
        _row(copy.partition, segment=str(copy.path), status="copy", reason=copy.reason) for copy in copies
    )


def _row(directory: PartitionDir | None, **values: str) -> dict[str, Any]:
    topic, partition = (None, None) if directory is None else directory.key
    return {"topic": topic, "partition": partition, **values}


def _table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=ERASURE_SCHEMA)
