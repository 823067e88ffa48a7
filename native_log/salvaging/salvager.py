"""Copy everything readable from damaged logs into a new log directory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from native_log.arguments import integer, optional_count, optional_integer, text
from native_log.checkpoints.names import METADATA_TOPIC
from native_log.checkpoints.offset_checkpoints import CLEANER_OFFSET_CHECKPOINT, write_offset_checkpoint
from native_log.logdir.create import check_identity, check_uuid, random_uuid
from native_log.logdir.discovery import local_path, local_paths
from native_log.progress import Progress
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.salvaging.destination import check_destination, new_log_dir
from native_log.salvaging.partition import copy_log
from native_log.salvaging.report import report_table
from native_log.salvaging.source import log_size_bytes, open_source
from native_log.system import available_cores
from native_log.workers import worker_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa

    from native_log.arguments import PathLike
    from native_log.checkpoints.write_session import WriteSession
    from native_log.salvaging.partition import CopiedLog
    from native_log.salvaging.report import Finding
    from native_log.salvaging.source import Source
    from native_log.salvaging.source_log import SourceLog


def salvage(
    source: PathLike | Iterable[PathLike],
    dest: PathLike,
    topics: str | Iterable[str] | None = None,
    *,
    exclude_topics: str | Iterable[str] = (),
    include_deleted: bool = False,
    cluster_id: str | None = None,
    node_id: int | None = None,
    topic_ids: Mapping[str, str] | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    dry_run: bool = False,
    threads: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Copy everything readable from damaged logs into a new log directory that a broker loads.

    Whole valid batches are copied byte for byte. So records keep their offsets, leader epochs, producers,
    timestamps and compression. A batch is valid if a reader with mode "dropMalformed" returns its records.
    Indexes, transaction indexes, producer state and leader epochs are rebuilt from the batches. Checkpoints
    are copied, but point to no offset beyond the end of a log.

    The source is only read: no file in it is changed, and no lock is taken. A broker may run on it; segments
    that the broker removes or compacts meanwhile are looked up again. Bytes that the system cannot read
    (an I/O error) are lost, and the rest of the file is read.

    A transaction whose marker is lost stays open in the copy. No marker is invented; the report names the
    producer and the offsets.

    The new directory is built next to `dest`, under a name that ends in `.unfinished-salvage`, and renamed at
    the end. After a crash that directory is left; the next run removes it.

    Args:
        source: log directories or partition directories. Of a partition that is in several, the directory
            with the greater log end offset is copied.
        dest: the new log directory. It must not exist, or be empty.
        topics: the topics to copy; None: all, internal ones included.
        exclude_topics: topics to leave out.
        include_deleted: also copy -delete and -stray directories, as normal partitions.
        cluster_id, node_id: those of the new directory; by default those of the source, or a new id and 1.
        topic_ids: topic ids by topic, for partitions without a readable partition.metadata.
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged. It bounds
            memory for each thread.
        dry_run: only report what would be copied and lost.
        threads: the number of logs to copy at a time; None: one for each CPU.
        on_progress: called with (steps done, total steps), from any thread.

    Returns:
        The report (SALVAGE_SCHEMA).

    Raises:
        FileExistsError: `dest` exists and is not empty.
        LogDirInUseError: another process is building `dest`.
        OSError: there is too little free space, or writing failed. Nothing is left then.
        ValueError: `dest` lies in the source, or an id is invalid.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    threads = optional_count("threads", threads)
    ids = {text("topic_ids", topic): check_uuid(topic_id) for topic, topic_id in (topic_ids or {}).items()}
    opened = open_source(
        local_paths(source),
        topics,
        exclude_topics,
        ids,
        include_deleted=include_deleted,
        max_batch_bytes=integer("max_batch_bytes", max_batch_bytes),
    )
    target = local_path(dest).resolve()
    check_destination(target, opened.log_dirs, opened.size_bytes)
    node_id = optional_integer("node_id", node_id)
    progress = Progress(on_progress, len(opened.logs))
    count = threads or min(available_cores(), len(opened.logs))
    with _session(target, opened, cluster_id, node_id, dry_run) as session:
        log_dir = None if session is None else session.log_dir

        def copy(log: SourceLog) -> CopiedLog:
            return _copy(log, log_dir, max_batch_bytes, progress)

        with worker_threads(count, "salvage", progress) as pool:
            copied = list(pool.map(copy, opened.logs))
        if session is not None:
            _write_checkpoints(session, opened, copied)
    return report_table(_findings(opened, copied))


def _session(
    dest: Path, source: Source, cluster_id: str | None, node_id: int | None, dry_run: bool
) -> AbstractContextManager[WriteSession | None]:
    known = source.meta_properties
    if cluster_id is None:
        cluster_id = (known.cluster_id if known else None) or random_uuid()
    if node_id is None:
        node_id = known.node_id if known is not None and known.node_id is not None else 1
    check_identity(cluster_id, node_id)
    if dry_run:
        return nullcontext()
    return new_log_dir(dest, cluster_id, node_id, 1 if known is None else known.version)


def _copy(log: SourceLog, log_dir: Path | None, max_batch_bytes: int, progress: Progress) -> CopiedLog:
    own = progress.partition()
    try:
        own.begin(log_size_bytes(log.directory.path))
        name = f"{log.directory.topic}-{log.directory.partition}"
        target = None if log_dir is None else log_dir / name
        return copy_log(log, target, max_batch_bytes=max_batch_bytes, advance=own.add)
    finally:
        own.end()


def _write_checkpoints(session: WriteSession, source: Source, copied: list[CopiedLog]) -> None:
    """Leave the offsets to checkpoint to the session, which writes them at its end."""
    first_dirty = {}
    for log, result in zip(source.logs, copied, strict=True):
        key = log.directory.key
        if log.directory.topic != METADATA_TOPIC:  # controllers keep no checkpoints of their log
            session.release(session.log_dir / f"{key[0]}-{key[1]}", key, result.closed)
            if result.first_dirty_offset is not None:
                first_dirty[key] = result.first_dirty_offset
    if first_dirty:
        write_offset_checkpoint(session.log_dir / CLEANER_OFFSET_CHECKPOINT, first_dirty)


def _findings(source: Source, copied: list[CopiedLog]) -> Iterator[tuple[str | None, int | None, Finding]]:
    """Yield all findings, each with topic and partition."""
    for log, result in zip(source.logs, copied, strict=True):
        topic, partition = log.directory.key
        for finding in result.findings:
            yield topic, partition, finding
    for directory, finding in source.findings:
        yield *(directory.key if directory else (None, None)), finding
