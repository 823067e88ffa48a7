"""Verification of log directories."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.arguments import topic_names
from native_log.errors import KafkaLogError
from native_log.log.problems import Problem
from native_log.log.verification import verify_log
from native_log.logdir.logdir import LogDir
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from native_log.arguments import HighWatermark, PathLike
    from native_log.logdir.discovery import PartitionDir

PROBLEM_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "path": pa.string(),
        "position": pa.int64(),
        "offset": pa.int64(),
        "kind": pa.string(),
        "problem": pa.string(),
        "advice": pa.string(),
    }
)
"""One row per problem, by topic, partition and place.

- `path`: the file, or the partition's directory where no file is concerned;
- `position`: byte position in it, null where none is concerned;
- `offset`: the first log offset concerned, null where that is not known;
- `kind`: of a .log file "size", "magic", "crc", "codec", "compression", "records", "order" (offsets that are
  not in order), "too-large" or "torn" (the end of a log that a crash left); "missing-segment"; "missing-end"
  (the log ends before its high watermark, or before a snapshot of producer state); "log-start-offset" (it
  ends before its start); "offset-index", "time-index", "transaction-index"; "snapshot"; "leader-epochs";
  "unreadable" (a file or directory that cannot be opened or listed);
- `problem`: what was expected and what was found; `advice`: what to do about it.
"""


def verify(
    path: PathLike | Iterable[PathLike],
    topics: str | Iterable[str] | None = None,
    *,
    exclude_topics: str | Iterable[str] = (),
    include_deleted: bool = False,
    high_watermark: HighWatermark = "auto",
    threads: int | None = None,
) -> pa.Table:
    """Check logs without changing anything: checksums, structure and offsets of all batches and records,
    leader epochs, indexes, snapshots of producer state, checkpoints.

    Behind damage it continues with the next batch that is whole and right. While a broker works in a
    directory, the ends of its logs are not judged.

    Args:
        path: a log directory or a partition directory, or several.
        topics: only these; None: all, internal ones too.
        exclude_topics: not these.
        include_deleted, high_watermark: see LogDir.
        threads: how many logs at a time; by default one for each CPU.

    Returns:
        PROBLEM_SCHEMA; no row if nothing is wrong.

    Raises:
        UnknownTopicOrPartitionError, FileNotFoundError, PermissionError, NotALogDirError.
    """
    log_dir = LogDir(path, include_deleted=include_deleted, high_watermark=high_watermark)
    partitions = _chosen(log_dir, topics, exclude_topics)
    with ThreadPoolExecutor(threads or available_cores(), "log-verification") as pool:
        found = pool.map(partial(check_partition, log_dir), partitions)
        rows = [row(one, problem) for one, some in zip(partitions, found, strict=True) for problem in some]
    return pa.Table.from_pylist(rows, schema=PROBLEM_SCHEMA)


def check_partition(
    log_dir: LogDir,
    one: PartitionDir,
    begin: Callable[[int], None] = lambda _: None,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Problem]:
    """The problems of one partition; that it cannot be read is one.

    Args:
        begin: called with the size of its .log files in bytes.
        advance: see verify_log.
    """
    try:
        log = log_dir.partition(one.topic, one.partition)
        begin(log.size_bytes)
        return list(verify_log(log, advance))
    except KafkaLogError as error:
        path, position, offset, message = error.path, error.position, error.offset, error.message
    except OSError as error:
        path, position, offset, message = error.filename, None, None, error.strerror or str(error)
    advice = "Make it readable, or take it from another replica"
    return [Problem("unreadable", str(path or one.path), position, offset, message, advice)]


def row(one: PartitionDir, problem: Problem) -> dict[str, object]:
    """A problem as a row of PROBLEM_SCHEMA."""
    return {
        "topic": one.topic,
        "partition": one.partition,
        "path": problem.path,
        "position": problem.position,
        "offset": problem.offset,
        "kind": problem.kind,
        "problem": problem.problem,
        "advice": problem.advice,
    }


def _chosen(
    log_dir: LogDir, topics: str | Iterable[str] | None, exclude_topics: str | Iterable[str]
) -> list[PartitionDir]:
    wanted = None if topics is None else topic_names(topics)
    excluded = topic_names(exclude_topics, "exclude_topics")
    for topic in sorted(((wanted or set()) | excluded) - log_dir.topics().keys()):
        log_dir.partition(topic, 0)  # raises, with what is there
    return [
        one
        for one in log_dir.partitions()
        if one.topic not in excluded and (wanted is None or one.topic in wanted)
    ]
