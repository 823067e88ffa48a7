"""Select the partitions of log directories by topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.arguments import topic_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.logdir.discovery import PartitionDir
    from native_log.logdir.logdir import LogDir


def select_partitions(
    log_dir: LogDir, topics: str | Iterable[str] | None, exclude_topics: str | Iterable[str]
) -> list[PartitionDir]:
    """Return the partitions of the given topics, internal ones included. Only read them: see maintenance.

    Args:
        log_dir: the log directories.
        topics: topics by name; None: all.
        exclude_topics: topics to leave out.

    Raises:
        UnknownTopicOrPartitionError: a topic does not exist. An excluded one may be misspelt, too.
    """
    selected = None if topics is None else topic_names(topics)
    excluded = topic_names(exclude_topics, "exclude_topics")
    for topic in sorted(((selected or set()) | excluded) - log_dir.topics().keys()):
        log_dir.partition(topic, 0)  # raises an error that lists the known topics
    return [
        directory
        for directory in log_dir.partitions()
        if directory.topic not in excluded and (selected is None or directory.topic in selected)
    ]
