"""Erasure by this process."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from native_log.arguments import topic_names
from native_log.compaction.compactor import cores
from native_log.compaction.survey import survey
from native_log.erasure.copies import Wanted, leftovers, other_places, set_aside
from native_log.erasure.rewrite import erase_records, roll
from native_log.erasure.search import ERASURE_SCHEMA, check_end, search
from native_log.erasure.selection import Selection
from native_log.errors import EmptyLogDirError, KafkaLogError, error_message
from native_log.log.replacing.interrupted import finish_interrupted, tidy_up
from native_log.logdir.maintenance import open_for_maintenance, select_partitions
from native_log.progress import Progress
from native_log.records import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from native_log.erasure.selection import Header, Text
    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir

logger = logging.getLogger(__name__)

HOW = ("drop", "tombstone")


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
) -> pa.Table:
    """Rewrites logs without the records that meet any of the conditions, wherever in the logs' files these
    lie: also below the log start, in aborted transactions, in the active segment (a new one is rolled first).

    Offsets, timestamps and transactions of all other records stay, and so does each batch's place in its
    producer's sequence. What is erased is gone from these partitions' directories once this returns, with
    the files that segments deleted before left (`.deleted`).

    Copies elsewhere are not touched. Those that may lie in the log directories are rows of the report, also
    of topics that are otherwise gone: -delete, -stray and -future directories, further directories of a
    partition, what unfinished writes and recovery left, files that are not Kafka's, tiered storage. Other
    replicas, backups and log directories that `path` does not name cannot be known here.

    Args:
        path: log directories, or single partition directories, also -delete, -stray and -future ones. No
            broker may run on them.
        topics: which; None: all but Kafka's internal ones.
        exclude_topics: leave these alone, whether `topics` names them or not.
        keys: whole keys: text or bytes, an iterable of such, an Arrow array, or the one column of a table or
            DataFrame (of pyarrow, pandas, polars, Spark, ...). Nulls are passed over.
        key_prefix: what keys begin with; one or several.
        header: the name of a header, or (name, value); one or several.
        how: "drop": the records go. "tombstone": key and offset stay, value and headers go, as if the record
            had been deleted: consumers and compaction learn that it is gone, but the key is still to be read.
            Records that are like this already are not touched, nor reported.
        dry_run: change nothing, only say what would be erased.
        on_progress: called with (steps done, of how many), from any thread.

    Returns:
        The report, as ERASURE_SCHEMA. It holds no key, only the keys' SHA-256.

    Raises:
        ValueError: no condition, or one that cannot be meant, or an unknown `how`.
        LogDirInUseError: a broker, or another writer, works on the directory.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    if how not in HOW:
        raise ValueError(f"how is drop or tombstone, not {how!r}")
    run = _Run(Selection.of(keys, key_prefix, header), how == "tombstone", dry_run)
    with ExitStack() as locks:
        log_dir = open_for_maintenance(path, dry_run, locks, allow_empty=True)
        chosen, wanted = _chosen(log_dir, topics, exclude_topics)
        progress = Progress(on_progress, len(chosen))
        pool = ThreadPoolExecutor(max(1, min(cores(), len(chosen))), "erase")
        try:
            found = list(pool.map(partial(_erased, log_dir, run, progress), chosen))
        except BaseException:
            progress.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        others = [
            _row(one.partition, segment=str(one.path), status="copy", reason=one.reason)
            for one in other_places(log_dir, chosen, wanted)
        ]
    if not chosen and not others and not log_dir.partitions():
        paths = ", ".join(map(str, log_dir.paths))
        raise EmptyLogDirError("expected partitions to erase records from, found none", path=paths)
    return pa.concat_tables([*found, _table(others)])


def _chosen(
    log_dir: LogDir, topics: str | Iterable[str] | None, exclude_topics: str | Iterable[str]
) -> tuple[list[PartitionDir], Wanted]:
    """Return the partitions to search, and whose copies matter: of a topic, too, that is only set aside."""
    names = None if topics is None else frozenset(topic_names(topics))
    excluded = frozenset(topic_names(exclude_topics, "exclude_topics"))
    gone = {one.topic for one in set_aside(log_dir)} - log_dir.topics().keys()
    chosen = select_partitions(
        log_dir, None if names is None else names - gone, excluded - gone, any_kind=True
    )
    return chosen, Wanted(names, excluded)


@dataclass(frozen=True, slots=True)
class _Run:
    selection: Selection
    nulled: bool
    dry_run: bool


def _erased(log_dir: LogDir, run: _Run, progress: Progress, directory: PartitionDir) -> pa.Table:
    mine = progress.partition()
    found, removed, erased = _table([]), _table([]), set[str]()
    try:
        left = leftovers(directory.path)
        if not run.dry_run:
            finish_interrupted(directory.path, DEFAULT_MAX_BATCH_BYTES)
        removed = _table(
            _row(directory, segment=one, status="removed", reason="left of a segment") for one in left
        )
        log = log_dir.partition(directory.topic, directory.partition)
        mine.begin(log.size_bytes)
        check_end(log)
        found = pa.Table.from_batches(search(log, run.selection, run.nulled, mine.add), ERASURE_SCHEMA)
        if found.num_rows:
            survey(log)  # no header is believed that cannot be right
        if found.num_rows and not run.dry_run:
            _rewrite(log, found, run.nulled, erased.add)
        return pa.concat_tables([found, removed])
    except (KafkaLogError, OSError) as error:
        logger.warning(
            "%s-%d is not erased from: %s", directory.topic, directory.partition, error_message(error)
        )
        if not run.dry_run:
            tidy_up(directory.path, DEFAULT_MAX_BATCH_BYTES)
        gone = found.filter(pc.is_in(found.column("segment"), pa.array(erased, pa.string())))
        failed = _table([_row(directory, status="failed", reason=error_message(error))])
        return pa.concat_tables([gone, removed, failed])
    finally:
        mine.end()


def _rewrite(log: PartitionLog, found: pa.Table, nulled: bool, done: Callable[[str], None]) -> None:
    """`done` is told the segments that are rewritten."""
    offsets: dict[str, list[int]] = {}
    rows = (found.column(name).to_pylist() for name in ("segment", "offset"))
    for name, offset in zip(*rows, strict=True):
        offsets.setdefault(name, []).append(offset)
    if log.segments[-1].log in offsets:
        roll(log)
    for segment in log.segments:
        if segment.log in offsets:
            erase_records(log, segment, offsets[segment.log], nulled)
            done(segment.log)


def _row(directory: PartitionDir | None, **values: str) -> dict[str, Any]:
    topic, partition = (None, None) if directory is None else directory.key
    return {"topic": topic, "partition": partition, **values}


def _table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=ERASURE_SCHEMA)
