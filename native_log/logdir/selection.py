"""Select partitions by topic and number. All functions with `topics` and `exclude_topics` follow this rule.

They differ in two parameters only: the kinds of directories that they process, and the topics that they
process only by name.

| function | kinds | only by name |
|---|---|---|
| verify, diff, report, `kafkalog ls`, `transactions` | those that LogDir reads | |
| `kafkalog cat`, LogDir.scan, follow, Spark | those that LogDir reads | INTERNAL_TOPICS, except in paths |
| salvage | those that LogDir reads | |
| restore | those that LogDir reads | BROKER_TOPICS |
| recover, reindex | normal and -future | __cluster_metadata, which is rejected |
| compact, retain | normal | BROKER_TOPICS |
| erase | all that were given | BROKER_TOPICS |
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from native_log.arguments import number_ranges, topic_names
from native_log.checkpoints.names import INTERNAL_TOPICS, PartitionKind
from native_log.errors import UnknownTopicOrPartitionError
from native_log.logdir.catalog import unknown_topic_message
from native_log.logdir.discovery import join_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from native_log.logdir.discovery import PartitionDir

logger = logging.getLogger(__name__)

ALL_KINDS = frozenset(PartitionKind)


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """The topics and partition numbers to process.

    Attributes:
        topics: topics by name; None: all except those in `only_by_name`.
        excluded: topics to leave out, even if `topics` contains them.
        only_by_name: topics that are left out unless `topics` contains them.
        numbers: ranges of partition numbers; None: all numbers.
    """

    topics: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    only_by_name: frozenset[str] = frozenset()
    numbers: tuple[range, ...] | None = None

    @classmethod
    def of(
        cls,
        topics: str | Iterable[str] | None,
        exclude_topics: str | Iterable[str] = (),
        *,
        only_by_name: Iterable[str] = (),
        numbers: int | Iterable[int | range] | None = None,
    ) -> Self:
        """Return a selection with checked arguments. A single topic may be a plain str. Raises TypeError."""
        return cls(
            None if topics is None else frozenset(topic_names(topics)),
            frozenset(topic_names(exclude_topics, "exclude_topics")),
            frozenset(only_by_name),
            None if numbers is None else number_ranges("partitions", numbers),
        )

    def includes_topic(self, topic: str) -> bool:
        """Return whether the topic is selected."""
        if topic in self.excluded:
            return False
        return topic not in self.only_by_name if self.topics is None else topic in self.topics

    def includes(self, topic: str, partition: int) -> bool:
        """Return whether the partition is selected."""
        is_numbered = self.numbers is None or any(partition in numbers for numbers in self.numbers)
        return is_numbered and self.includes_topic(topic)

    def check_topics(
        self, existing: Collection[str], others: Iterable[PartitionDir], paths: Iterable[Path]
    ) -> None:
        """Raise UnknownTopicOrPartitionError if a named topic does not exist.

        Excluded topics are checked, too: a misspelt one would be processed.

        Args:
            existing: the topics that can be selected.
            others: directories that cannot be selected, for the message.
            paths: the log directories, for the message.
        """
        named = (self.topics or frozenset()) | self.excluded
        unknown = sorted(named.difference(existing))
        if unknown:
            raise UnknownTopicOrPartitionError(
                unknown_topic_message(unknown[0], existing, others), path=", ".join(map(str, paths))
            )


def filter_partitions(
    partitions: Iterable[PartitionDir],
    selection: PartitionSelection,
    *,
    kinds: Collection[PartitionKind] = ALL_KINDS,
    ignored: Iterable[PartitionDir] = (),
    paths: Sequence[Path] = (),
    required: bool = False,
) -> list[PartitionDir]:
    """Return the selected partitions, in their order.

    If a partition directory was given by its own path but is not processed by default, a warning says so.

    Args:
        partitions: the partitions to choose from.
        selection: what to select.
        kinds: the kinds of directories to process.
        ignored: directories that were found but are not among `partitions`, for error messages.
        paths: the paths that the user gave: log directories or partition directories.
        required: raise an error if nothing is selected, although there are partitions.

    Raises UnknownTopicOrPartitionError: a topic does not exist, or there is no partition with such a number.
    """
    listed = list(partitions)
    known = [directory for directory in listed if directory.kind in kinds]
    others = [directory for directory in listed if directory.kind not in kinds]
    selection.check_topics({directory.topic for directory in known}, [*others, *ignored], paths)
    given = frozenset(paths)
    for directory in listed:
        if directory.path in given:
            _warn_if_left_out(directory, selection, kinds)
    in_topics = [directory for directory in known if selection.includes_topic(directory.topic)]
    if required and listed and not in_topics:
        topics = join_names(sorted({directory.topic for directory in listed}))
        raise UnknownTopicOrPartitionError(
            f"expected a topic that is not excluded, found only {topics}; exclude fewer topics"
            if selection.excluded
            else f"expected a topic that is not internal, found only {topics}; give the names of topics",
            path=", ".join(map(str, paths)),
        )
    _check_numbers(in_topics, selection.numbers or (), paths)
    return [directory for directory in in_topics if selection.includes(*directory.key)]


def internal_topics(partitions: Iterable[PartitionDir], paths: Collection[Path]) -> frozenset[str]:
    """Return the internal topics that are read only by name.

    A path of a partition directory counts as the name of its topic.

    Args:
        partitions: the partitions that can be read.
        paths: the paths that the user gave.
    """
    given = frozenset(paths)
    internal = (directory for directory in partitions if directory.topic in INTERNAL_TOPICS)
    return INTERNAL_TOPICS - {directory.topic for directory in internal if directory.path in given}


def _warn_if_left_out(
    directory: PartitionDir, selection: PartitionSelection, kinds: Collection[PartitionKind]
) -> None:
    if directory.kind not in kinds:
        reason = f"-{directory.kind} directories are not processed here"
    elif selection.topics is None and directory.topic in selection.only_by_name - selection.excluded:
        reason = f"{directory.topic} is processed only if it is named as a topic"
    else:
        return
    logger.warning("%s: skipped: %s", directory.path, reason)


def _check_numbers(
    partitions: Iterable[PartitionDir], numbers: Iterable[range], paths: Iterable[Path]
) -> None:
    """Raise UnknownTopicOrPartitionError if a range contains no partition."""
    existing = sorted({directory.partition for directory in partitions})
    for allowed in numbers:
        if not any(number in allowed for number in existing):
            text = str(allowed.start) if len(allowed) == 1 else f"{allowed.start} to {allowed.stop - 1}"
            topics = join_names(sorted({directory.topic for directory in partitions})) or "no topic"
            raise UnknownTopicOrPartitionError(
                f"expected a partition {text} of {topics}, found {join_names(existing) or 'none'}",
                path=", ".join(map(str, paths)),
            )
