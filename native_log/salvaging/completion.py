"""Add to a copied log what a broker needs besides the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import truncate_from_end, truncate_from_start, update_leader_epochs
from native_log.checkpoints.names import METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC
from native_log.checkpoints.partition_metadata import write_topic_id
from native_log.errors import CorruptRecordError
from native_log.internal_topics.metadata_log import SNAPSHOT_SUFFIX
from native_log.log.recovery.log_recovery import recover_log
from native_log.logdir.broker_checks import QUORUM_STATE, metadata_file_problem
from native_log.salvaging.log_files import copy_file
from native_log.salvaging.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.salvaging.source_log import SourceLog


def complete_log(
    target: Path, source: SourceLog, start_offset: int, end_offset: int, epochs: tuple[EpochEntry, ...] | None
) -> None:
    """Write the topic id, the indexes, the producer state and the leader epochs of a copied log.

    Args:
        target: the new partition directory, with the .log files.
        source: the log that was copied.
        start_offset, end_offset: the log start offset of the copy, and the offset after its last batch.
        epochs: the leader epochs in the source's checkpoint; None: those of the batches. Only the checkpoint
            has the epochs of lost and of compacted batches, and no checksum covers the epoch of a batch.

    Raises CorruptRecordError if the copy is not valid; OSError.
    """
    if source.topic_id is not None:
        write_topic_id(target, source.topic_id, flush=False)
    recovery = recover_log(target, recovery_point=0, log_start_offset=start_offset, config=source.config)
    if recovery.loses_data or recovery.log_end_offset != max(start_offset, end_offset):
        raise CorruptRecordError(
            f"expected a copy of whole, valid batches that ends at offset {end_offset}, found its end at "
            f"{recovery.log_end_offset}: {recovery.reason}. The disk may be failing; give a destination on "
            "another one",
            path=target,
        )
    if epochs is not None:
        update_leader_epochs(target, truncate_from_start(truncate_from_end(epochs, end_offset), start_offset))


def copy_raft_files(source: SourceLog, names: Iterable[str], target: Path | None) -> list[Finding]:
    """Copy the metadata snapshots and the quorum state. Return the files that are not copied.

    Malformed ones are left out, because a broker would not start with them. Without a snapshot, it starts
    from an older one and the log.

    Args:
        source: the log.
        names: the names of the files in its directory.
        target: the new partition directory; None: only read.

    Raises OSError if a copy cannot be written.
    """
    if source.directory.topic != METADATA_TOPIC:
        return []
    findings = []
    for name in sorted(names):
        if name == QUORUM_STATE or name.endswith(SNAPSHOT_SUFFIX):
            path = source.directory.path / name
            reason = copy_file(path, None if target is None else target / name)
            if reason is not None:
                findings.append(Finding("lost", "unreadable", str(path), reason=reason))
            elif (problem := metadata_file_problem(source.directory.folder, name)) is not None:
                if target is not None:
                    (target / name).unlink()
                reason = f"{problem.problem}. A broker would not start with it, so it is left out"
                findings.append(Finding("lost", problem.kind, str(path), reason=reason))
    return findings


def compare_with_checkpoints(source: SourceLog, first_offset: int, end_offset: int) -> list[Finding]:
    """Return where the files of a log contradict its checkpoints, and whether its topic id is missing.

    Args:
        source: the log.
        first_offset: the base offset of its first segment.
        end_offset: the offset after its last batch.
    """
    findings = []
    start = source.checkpoints.stored_start
    if start is not None and start[0] < first_offset:
        findings.append(_missing_start(source, *start, first_offset))
    if source.ends_before_start(end_offset):
        findings.append(_start_after_end(source, first_offset, end_offset))
    if source.topic_id is None and source.needs_topic_id:
        findings.append(_missing_topic_id(source))
    return findings


def _missing_start(source: SourceLog, start: int, stored_in: str, first_offset: int) -> Finding:
    where = (
        "they are in remote storage, which is not copied"
        if source.is_remote or stored_in == REMOTE_LOG_METADATA_TOPIC
        else "they are in remote storage, or their segments are missing"
    )
    return Finding(
        "lost",
        "missing-start",
        str(source.directory.path),
        reason=f"the log starts at offset {start} ({stored_in}), its files later: {where}",
        first_offset=start,
        last_offset=first_offset - 1,
    )


def _start_after_end(source: SourceLog, first_offset: int, end_offset: int) -> Finding:
    reason = (
        f"the log ends at offset {end_offset}, before its start offset {source.checkpoints.log_start_offset} "
        "(log-start-offset-checkpoint). A broker would remove all its records, so the copy starts at "
        f"{first_offset}"
    )
    return Finding("warning", "log-start-offset", str(source.directory.path), reason=reason)


def _missing_topic_id(source: SourceLog) -> Finding:
    reason = (
        "expected a topic id in partition.metadata, found none. A KRaft broker treats a partition without it "
        "as stray; give it with topic_ids"
    )
    return Finding("warning", "topic-id", str(source.directory.path), reason=reason)
