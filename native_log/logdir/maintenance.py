"""What every change to a log directory begins with: the directory locked, its partitions chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from native_log.arguments import path_list, topic_names
from native_log.checkpoints.names import BROKER_TOPICS, METADATA_TOPIC, PartitionKind
from native_log.checkpoints.write_session import WriteSession
from native_log.errors import InvalidTopicError
from native_log.logdir.logdir import LogDir

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack

    from native_log.logdir.discovery import PartitionDir
    from native_log.policies import TopicFacts

Policy = TypeVar("Policy")


def open_for_maintenance(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    dry_run: bool,
    locks: ExitStack,
    *,
    allow_empty: bool = False,
) -> LogDir:
    """The log directories at `path`, locked unless only looked at. Logs end at the saved high watermark.

    Args:
        allow_empty: no error where no partition can be read.

    Raises LogDirInUseError, and as LogDir does.
    """
    paths = path_list(path)
    log_dir = LogDir(paths, high_watermark="checkpoint", allow_empty=allow_empty)
    if dry_run:
        return log_dir
    for directory in log_dir.directories:
        locks.enter_context(WriteSession.exclusive(directory.path))
    # Once more: what was read before the lock was held may have changed.
    return LogDir(paths, high_watermark="checkpoint", allow_empty=allow_empty)


def check_changeable(topics: Iterable[str]) -> None:
    """Raises InvalidTopicError for the log of a cluster's metadata."""
    if METADATA_TOPIC in topics:
        raise InvalidTopicError(
            f"{METADATA_TOPIC} is not a topic's log but the controllers': its records have no keys, and they "
            "delete of it what their snapshots hold. It is left alone"
        )


def decide_policies(
    log_dir: LogDir, chosen: Iterable[PartitionDir], decide: Callable[[str, TopicFacts], Policy]
) -> list[Policy]:
    """Return the decision for each of the partitions; those of a topic share one object if its facts do."""
    decided: dict[tuple[str, TopicFacts], Policy] = {}
    found = []
    for one in chosen:
        key = one.topic, log_dir.topic_facts(one)
        if key not in decided:
            decided[key] = decide(*key)
        found.append(decided[key])
    return found


def select_partitions(
    log_dir: LogDir,
    topics: str | Iterable[str] | None,
    exclude_topics: str | Iterable[str] = (),
    *,
    any_kind: bool = False,
) -> list[PartitionDir]:
    """Return the partitions of these topics (None: of all but BROKER_TOPICS) that are not excluded.

    Args:
        any_kind: also `-delete`, `-stray` and `-future` directories that were given by their own paths.

    Raises UnknownTopicOrPartitionError, also for an excluded topic: it may be misspelt. InvalidTopicError.
    """
    partitions = [one for one in log_dir.partitions() if any_kind or one.kind is PartitionKind.NORMAL]
    known = {one.topic for one in partitions}
    if topics is None:
        wanted = known - BROKER_TOPICS
    else:
        wanted = topic_names(topics)
        check_changeable(wanted)
    excluded = topic_names(exclude_topics, "exclude_topics")
    for topic in sorted((wanted | excluded) - known):
        log_dir.partition(topic, 0)  # raises, and says what is there instead
    return [one for one in partitions if one.topic in wanted - excluded]
