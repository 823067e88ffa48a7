"""The common first steps of compaction, retention and erasure: lock log directories, select partitions."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from native_log.arguments import path_list
from native_log.checkpoints.names import BROKER_TOPICS, METADATA_TOPIC, PartitionKind
from native_log.checkpoints.offset_checkpoints import check_checkpoints
from native_log.checkpoints.write_session import WriteSession
from native_log.errors import InvalidTopicError
from native_log.logdir.discovery import local_paths
from native_log.logdir.logdir import LogDir
from native_log.logdir.selected_partitions import select_partitions
from native_log.logdir.selection import PartitionSelection
from native_log.prefetch import look_up_together

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from native_log.logdir.discovery import PartitionDir
    from native_log.policies import TopicFacts
    from native_log.storage import StorageOptionsLike

Policy = TypeVar("Policy")


@contextmanager
def open_for_maintenance(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    dry_run: bool,
    *,
    allow_empty: bool = False,
    storage_options: StorageOptionsLike = None,
) -> Iterator[LogDir]:
    """Open the log directories at `path`, and lock them during the block unless `dry_run`.

    Those at URLs are read only. The logs end at their checkpointed high watermark.

    Args:
        path: log directories or partition directories.
        dry_run: take no lock.
        allow_empty: raise no error if there is no partition to read.
        storage_options: settings for paths that are URLs.

    Raises KafkaLogError if a checkpoint file is malformed; LogDirInUseError, NotALogDirError for a URL unless
    `dry_run`; and the errors of LogDir.
    """
    paths = path_list(path)
    if not dry_run:
        local_paths(paths)
    log_dir = LogDir(
        paths, high_watermark="checkpoint", allow_empty=allow_empty, storage_options=storage_options
    )
    if dry_run:
        for directory in log_dir.directories:
            check_checkpoints(directory.folder)  # as WriteSession does
        yield log_dir
        return
    with ExitStack() as locks:
        for directory in log_dir.directories:
            locks.enter_context(WriteSession.exclusive(directory.path))
        # Open them again: they may have changed before the locks were taken.
        yield LogDir(log_dir.paths, high_watermark="checkpoint", allow_empty=allow_empty)


def check_changeable(topics: Iterable[str]) -> None:
    """Raise InvalidTopicError if the topics contain __cluster_metadata."""
    if METADATA_TOPIC in topics:
        raise InvalidTopicError(
            f"{METADATA_TOPIC} is the log of the controllers and must not be changed: its records have no "
            "keys, and the controllers delete what their snapshots contain"
        )


def decide_policies(
    log_dir: LogDir, chosen: Iterable[PartitionDir], decide: Callable[[str, TopicFacts], Policy]
) -> list[Policy]:
    """Return the policy of each partition. Partitions of a topic with equal facts share one object."""
    decided: dict[tuple[str, TopicFacts], Policy] = {}
    policies = []
    facts = look_up_together(log_dir.topic_facts, chosen, are_local=log_dir.is_local)
    for directory, known in facts.items():
        key = directory.topic, known
        if key not in decided:
            decided[key] = decide(*key)
        policies.append(decided[key])
    return policies


def select_changeable(
    log_dir: LogDir, topics: str | Iterable[str] | None, exclude_topics: str | Iterable[str] = ()
) -> list[PartitionDir]:
    """Return the partitions of the given topics. `-delete`, `-stray` and `-future` directories are left out.

    Args:
        log_dir: the log directories.
        topics: topics by name; None: all but BROKER_TOPICS.
        exclude_topics: topics to leave out.

    Raises UnknownTopicOrPartitionError; InvalidTopicError for __cluster_metadata.
    """
    selection = changeable_topics(topics, exclude_topics)
    return select_partitions(log_dir, selection, kinds={PartitionKind.NORMAL})


def changeable_topics(
    topics: str | Iterable[str] | None, exclude_topics: str | Iterable[str] = ()
) -> PartitionSelection:
    """Return a selection of topics to change: see `select_changeable`."""
    selection = PartitionSelection.of(topics, exclude_topics, only_by_name=BROKER_TOPICS)
    check_changeable(selection.topics or ())
    return selection
