"""Verify the logs in log directories."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.arguments import optional_count
from native_log.checkpoints.write_intent import WRITE_INTENT
from native_log.errors import KafkaLogError
from native_log.log.gaps import DOUBT
from native_log.log.problems import Problem
from native_log.log.verification import verify_log
from native_log.logdir.logdir import LogDir
from native_log.logdir.selected_partitions import select_partitions
from native_log.logdir.selection import PartitionSelection
from native_log.policies import explain_gaps
from native_log.progress import Progress
from native_log.sizes import format_count
from native_log.system import available_cores
from native_log.workers import worker_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Unpack

    from native_log.arguments import HighWatermark, PathLike
    from native_log.log.gaps import GapCount
    from native_log.log.partition_log import PartitionLog
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import PartitionDir
    from native_log.logdir.remote_storage import RemoteArguments
    from native_log.storage import StorageOptionsLike

logger = logging.getLogger(__name__)

_NAMED = 5
"""How many logs a warning names."""

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
"""One row for each problem, sorted by topic, partition, directory (in the order given) and position.

- `topic`, `partition`: null for problems of log directories as a whole; these rows come first;
- `path`: the file, or the partition directory if no single file is concerned. It shows which copy of the
  partition has the problem;
- `position`: the byte position in the file, or null;
- `offset`: the first log offset concerned, or null if it is unknown;
- `kind`: for .log files "size", "magic", "crc", "codec", "compression", "records", "order" (offsets do not
  increase), "too-large" or "torn" (damage at the end of the log, as a crash leaves it); otherwise
  "missing-segment" (only the indexes of a segment are left); "missing" (offsets that no batch has, in a topic
  that is not compacted: one row for the segment in which the gaps end; or the end of a file, which its time
  index shows); "missing-end" (the log ends before
  its high watermark, or before a producer state snapshot); "log-start-offset" (the log ends before its start
  offset); "offset-index", "time-index", "transaction-index"; "snapshot"; "leader-epochs"; "topic-id" (a
  broker would not accept partition.metadata); "malformed-file" and "foreign-directory" (a malformed
  metadata file, or a directory that is not a partition: a broker does not start); "duplicate" (a partition in
  several log directories of one broker); "owner" (files of another user than the owner of the log directory,
  as whom a broker runs: one row for each directory); "unreadable" (a file or directory cannot be read);
  "unfinished-write" (a write that was interrupted during its commit, whose records readers do not see);
  "orphan-object" (an object in remote storage that its metadata does not name); "missing-object" (the
  metadata names a segment without objects);
- `problem`: what was expected and what was found;
- `advice`: what to do about it.
"""


def verify(
    path: PathLike | Iterable[PathLike],
    topics: str | Iterable[str] | None = None,
    *,
    exclude_topics: str | Iterable[str] = (),
    include_deleted: bool = False,
    high_watermark: HighWatermark = "auto",
    threads: int | None = None,
    storage_options: StorageOptionsLike = None,
    **remote: Unpack[RemoteArguments],
) -> pa.Table:
    """Check logs without changing anything.

    If several directories contain the same partition, each of them is checked.

    These are checked: checksums, structure and offsets of all batches and records, leader epochs, indexes,
    producer state snapshots, checkpoint files, topic ids, and the owners of files. Offsets that no batch has
    are a problem if the topic is not compacted; if its policy is unknown, one warning names the logs that
    lack some. After damage, the check continues with the next valid batch. While a broker has the directory
    open, the ends of its logs are not checked. What an unfinished write has appended is not checked.

    Args:
        path: a log directory or a partition directory, or several.
        topics: check only these; None: all, internal ones included.
        exclude_topics: do not check these.
        include_deleted, high_watermark, storage_options, remote: see LogDir.
        threads: the number of logs, or of segments of fewer logs, to check at a time; by default one for each
            CPU, but at least 8 at URLs, and up to 64 small ones.

    Returns:
        A table of PROBLEM_SCHEMA, without rows if nothing is wrong.

    Raises:
        UnknownTopicOrPartitionError, FileNotFoundError, PermissionError, NotALogDirError.
    """
    threads = optional_count("threads", threads)
    log_dir = open_all_copies(
        path,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        storage_options=storage_options,
        **remote,
    )
    partitions = select_partitions(log_dir, PartitionSelection.of(topics, exclude_topics))
    copies = log_dir.all_copies(partitions)
    rows = [
        problem_row(directory, problem)
        for directory, problems in verify_log_dirs(log_dir, copies, threads=threads)
        for problem in problems
    ]
    return pa.Table.from_pylist(rows, schema=PROBLEM_SCHEMA)


def open_all_copies(
    path: PathLike | Iterable[PathLike] | None,
    *,
    include_deleted: bool = False,
    high_watermark: HighWatermark = "auto",
    storage_options: StorageOptionsLike = None,
    **remote: Unpack[RemoteArguments],
) -> LogDir:
    """Open log directories without choosing a copy of each partition. See LogDir for the arguments.

    With remote storage, each copy is joined with its remote segments.
    """
    return LogDir(
        path,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        replicas="longest" if remote else "merge",
        storage_options=storage_options,
        **remote,
    )


def verify_log_dirs(
    log_dir: LogDir,
    partitions: Sequence[PartitionDir],
    on_progress: Callable[[int, int], None] | None = None,
    threads: int | None = None,
) -> Generator[tuple[PartitionDir | None, list[Problem]], None, None]:
    """Yield the problems of the log directories as a whole, with None, and then as `verify_partitions`."""
    yield None, [*log_dir.root_problems(), *_interrupted_writes(log_dir.directories)]
    yield from verify_partitions(log_dir, partitions, on_progress, threads)


def _interrupted_writes(directories: Iterable[DirectoryState]) -> Iterator[Problem]:
    for directory in directories:
        if directory.has_interrupted_write:
            yield Problem(
                "unfinished-write",
                str(directory.path / WRITE_INTENT),
                None,
                None,
                "a write was interrupted during its commit. Readers do not see its records",
                "The next writer removes them, and so does kafkalog recover",
            )


def verify_partitions(
    log_dir: LogDir,
    partitions: Sequence[PartitionDir],
    on_progress: Callable[[int, int], None] | None = None,
    threads: int | None = None,
) -> Generator[tuple[PartitionDir, list[Problem]], None, None]:
    """Check partition directories in parallel. Yield each with its problems, in the order of `partitions`.

    An error that stops the check of a directory is one of its problems. One warning names the logs that lack
    offsets and whose topics have an unknown policy. If the generator is closed early, the
    checks stop.

    Args:
        log_dir: the log directories.
        partitions: some of its partition directories: see LogDir.all_copies.
        on_progress: called with (steps done, total steps), from any thread.
        threads: the number of logs, or of segments of fewer logs, to check at a time; by default one for each
            CPU, but at least 8 at URLs, and up to 64 small ones.
    """
    threads = threads or log_dir.waiting_readers(partitions) or available_cores()
    progress = Progress(on_progress, len(partitions))
    doubtful: dict[Path, GapCount] = {}
    check = partial(_check_partition, log_dir, progress, max(1, threads // max(1, len(partitions))), doubtful)
    with worker_threads(threads, "log-verification", progress) as pool:
        yield from zip(partitions, pool.map(check, partitions), strict=True)
    _warn_of_gaps([(each.path, doubtful[each.path]) for each in partitions if each.path in doubtful])


def _warn_of_gaps(doubtful: Sequence[tuple[Path, GapCount]]) -> None:
    if not doubtful:
        return
    names = [f"{path} ({gaps})" for path, gaps in doubtful[:_NAMED]]
    if len(doubtful) > _NAMED:
        names.append(f"and {len(doubtful) - _NAMED} more")
    logger.warning(
        "offsets have no records in %s: %s. %s", format_count(len(doubtful), "log"), ", ".join(names), DOUBT
    )


def _check_partition(
    log_dir: LogDir,
    progress: Progress,
    threads: int,
    doubtful: dict[Path, GapCount],
    directory: PartitionDir,
) -> list[Problem]:
    """Return the problems of a partition directory. One that a broker removes meanwhile has none."""
    own = progress.partition()
    try:
        log = log_dir.open_copy(directory)
        own.begin(log.size_bytes)
        on_doubt = partial(doubtful.__setitem__, directory.path)
        problems = _log_problems(log_dir, directory, log, own.add, threads, on_doubt)
        in_files = list(log_dir.file_problems(directory))
        malformed = {problem.path for problem in in_files}  # what else is said of these files follows from it
        in_log = (problem for problem in problems if problem.path not in malformed)
        return [*in_log, *in_files, *log_dir.remote_problems(directory)]
    except KafkaLogError as error:
        path, position, offset, message = error.path, error.position, error.offset, error.message
    except OSError as error:
        path, position, offset, message = error.filename, None, None, error.strerror or str(error)
        if directory.folder.was_removed():
            logger.warning("%s was removed before it was checked", directory.path)
            return []
    finally:
        own.end()
    advice = "Make it readable, or take it from another replica"
    return [Problem("unreadable", str(path or directory.path), position, offset, message, advice)]


def _log_problems(
    log_dir: LogDir,
    directory: PartitionDir,
    log: PartitionLog,
    advance: Callable[[int], None],
    threads: int,
    on_doubt: Callable[[GapCount], None],
) -> list[Problem]:
    """Return the problems of a log, without those of the batches that an unfinished write appends."""
    before_write = [log.checkpoints.before_write]

    def reopen() -> PartitionLog:
        log = log_dir.reopen_copy(directory)
        before_write.append(log.checkpoints.before_write)
        return log

    gaps = explain_gaps(log_dir.topic_facts(directory))
    problems = list(verify_log(log, advance, threads, gaps, on_doubt, reopen))
    end = min((end.offset for end in before_write if end is not None), default=None)
    return [each for each in problems if end is None or each.offset is None or each.offset < end]


def problem_row(directory: PartitionDir | None, problem: Problem) -> dict[str, object]:
    """Return a problem as a row of PROBLEM_SCHEMA. None: it is one of a log directory as a whole."""
    return {
        "topic": None if directory is None else directory.topic,
        "partition": None if directory is None else directory.partition,
        "path": problem.path,
        "position": problem.position,
        "offset": problem.offset,
        "kind": problem.kind,
        "problem": problem.problem,
        "advice": problem.advice,
    }
