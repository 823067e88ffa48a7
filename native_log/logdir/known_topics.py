"""The configurations of topics, as far as log directories contain them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from native_log.checkpoints.names import BROKER_TOPICS, METADATA_TOPIC, PartitionKind
from native_log.checkpoints.partition_metadata import read_topic_id
from native_log.config import InvalidConfigError, LogConfig
from native_log.errors import KafkaLogError, error_message
from native_log.logdir.directory_state import DirectoryState
from native_log.policies import Gaps, TopicFacts, explain_gaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from native_log.logdir.discovery import PartitionDir
    from native_log.messages.configs import ConfigsImage
    from native_log.storage import Folder

logger = logging.getLogger(__name__)

METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"

_reading = threading.RLock()
"""Held while metadata is read, so that only one of the threads that open logs reads it."""


class KnownTopics:
    """The topic configurations in the cluster metadata, and signs of compaction. They are read on first use.

    A configuration applies to a partition directory if the topic ids match, so it does not apply to a
    directory left by a deleted topic of the same name. A log directory without metadata uses that of another
    log directory of the same cluster.
    """

    def __init__(self, directories: Mapping[Path, DirectoryState]) -> None:
        self._directories = directories
        self._images: dict[Path, ConfigsImage | str | None] = {}
        self._compacted: frozenset[str] | None = None
        self._facts: dict[tuple[Path, str, str | None], TopicFacts] = {}

    @classmethod
    def read(cls, log_dirs: Iterable[Path]) -> KnownTopics:
        """Return the configurations in these log directories. Raises KafkaLogError, OSError."""
        return cls({path: DirectoryState.read(path) for path in log_dirs})

    def facts(self, directory: PartitionDir) -> TopicFacts:
        """Return what is known about the topic of a partition directory. Equal facts are the same object.

        If the metadata cannot be read, the reason is in `unreadable` and a warning is logged.
        """
        if directory.kind in (PartitionKind.DELETE, PartitionKind.STRAY):
            return TopicFacts()  # metadata and checkpoints describe another topic of that name
        log_dir = directory.path.parent
        image = self._image(log_dir)
        topic_id = None if image is None else read_topic_id(directory.folder)
        key = log_dir, directory.topic, topic_id
        if key not in self._facts:
            self._facts[key] = self._look_up(directory.topic, topic_id, log_dir, image)
        return self._facts[key]

    def topic_ids(self) -> dict[str, str]:
        """Return the topic ids in the cluster metadata. Metadata that cannot be read are left out."""
        images = [self._image(log_dir) for log_dir in self._directories]
        return {
            topic: topic_id
            for image in images
            if image is not None and not isinstance(image, str)
            for topic, topic_id in image.topic_ids.items()
        }

    def topic_id(self, directory: PartitionDir) -> str | None:
        """Return the id of a directory's topic in the cluster metadata; None if it is not known."""
        image = self._image(directory.path.parent)
        return None if image is None or isinstance(image, str) else image.topic_ids.get(directory.topic)

    def settings(self, directory: PartitionDir, *given: Mapping[str, object]) -> LogConfig:
        """Return the settings for writing to a partition: see TopicFacts.settings.

        Raises InvalidConfigError if a stored setting is invalid.
        """
        try:
            return self.facts(directory).settings(*given).config
        except InvalidConfigError as error:
            raise InvalidConfigError(
                f"{directory.path}: stored configuration of the topic: {error}"
            ) from None

    def valid_settings(self, directory: PartitionDir, given: Mapping[str, object]) -> LogConfig:
        """Return `settings`, or only the given ones, with a warning, if stored settings are invalid."""
        try:
            return self.settings(directory, given)
        except InvalidConfigError as error:
            logger.warning("%s; the stored configuration is ignored", error)
            return LogConfig.parse(given)

    def _look_up(
        self, topic: str, topic_id: str | None, log_dir: Path, image: ConfigsImage | str | None
    ) -> TopicFacts:
        stored: Mapping[str, str] | None = None
        broker: Mapping[str, str] | None = None
        # The log of the metadata has settings of its own (Kafka: KafkaRaftLog), which are not stored here.
        if image is not None and not isinstance(image, str) and topic != METADATA_TOPIC:
            properties = self._directories[log_dir].meta_properties
            broker = image.broker_config(None if properties is None else properties.node_id)
            known_id = image.topic_ids.get(topic)
            if known_id is not None and topic_id in (None, known_id):
                stored = image.topics.get(topic, {})
        return TopicFacts(
            stored=stored,
            broker=broker,
            was_compacted=topic in self._compacted_topics(),
            is_internal=topic in BROKER_TOPICS,
            unreadable=image if isinstance(image, str) else None,
        )

    def _compacted_topics(self) -> frozenset[str]:
        if self._compacted is None:
            checkpoints = (state.checkpoints.first_dirty_offsets for state in self._directories.values())
            self._compacted = frozenset(topic for offsets in checkpoints for topic, _ in offsets)
        return self._compacted

    def _image(self, log_dir: Path) -> ConfigsImage | str | None:
        """Return the configurations for a log directory, or why they cannot be read; None: there are none."""
        if log_dir not in self._images:
            with _reading:
                if log_dir not in self._images:
                    self._images[log_dir] = self._find_image(log_dir)
        return self._images[log_dir]

    def _find_image(self, log_dir: Path) -> ConfigsImage | str | None:
        holder = self._metadata_holder(log_dir)
        if holder is None:
            return None
        if holder != log_dir:
            return self._image(holder)
        return _read_or_reason(self._directories[log_dir].folder / METADATA_DIRECTORY)

    def _metadata_holder(self, log_dir: Path) -> Path | None:
        """Return the log directory whose metadata applies: this one, or another one of the same cluster."""
        if self._directories[log_dir].folder.has(METADATA_DIRECTORY):
            return log_dir
        cluster = _cluster_id(self._directories[log_dir])
        others = (state for state in self._directories.values() if _cluster_id(state) == cluster)
        return next((state.path for state in others if state.folder.has(METADATA_DIRECTORY)), None)


def gaps_of(facts: Iterable[TopicFacts]) -> Gaps:
    """Return whether compaction explains offsets that no batch of a partition's copies has.

    Args:
        facts: what is known about the topic, for each copy.
    """
    found = set(map(explain_gaps, facts))
    return next((gaps for gaps in (Gaps.COMPACTED, Gaps.UNKNOWN) if gaps in found), Gaps.UNEXPLAINED)


def _cluster_id(directory: DirectoryState) -> str | None:
    return None if directory.meta_properties is None else directory.meta_properties.cluster_id


def _read_or_reason(directory: Folder) -> ConfigsImage | str:
    from native_log.logdir.cluster_metadata import read_configs  # few programs need the message schemas

    try:
        return read_configs(directory)
    except (KafkaLogError, OSError) as error:
        logger.warning("topic configurations cannot be read: %s", error_message(error))
        return f"its configuration cannot be read: {error_message(error)}"
