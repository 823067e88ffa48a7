"""Check the small files beside the records: with bad ones a broker does not start, or serves no partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT, malformed_leader_epochs
from native_log.checkpoints.meta_properties import META_PROPERTIES, malformed_meta_properties
from native_log.checkpoints.names import METADATA_TOPIC, PartitionKind
from native_log.checkpoints.offset_checkpoints import malformed_advice, malformed_checkpoints
from native_log.checkpoints.partition_metadata import PARTITION_METADATA, read_partition_metadata
from native_log.log.problems import Problem, advice_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.logdir.discovery import PartitionDir
    from native_log.storage import Folder

_NO_START = "A broker does not start with it"


def log_dir_problems(log_dir: Folder) -> Iterator[Problem]:
    """Yield the malformed files in the root of a log directory."""
    reason = malformed_meta_properties(log_dir)
    if reason is not None:
        advice = f"{_NO_START}. Restore it: it has version, cluster.id and node.id, one on each line"
        yield _problem("meta-properties", f"{log_dir}/{META_PROPERTIES}", reason, advice)
    for name, error in malformed_checkpoints(log_dir).items():
        yield _problem("checkpoint", f"{log_dir}/{name}", str(error), malformed_advice(name))


def partition_problems(directory: PartitionDir, known_topic_id: str | None) -> Iterator[Problem]:
    """Yield what a broker does not accept in the small files of a partition directory.

    Args:
        known_topic_id: the topic's id in the cluster metadata; None: it is unknown.
    """
    error = malformed_leader_epochs(directory.folder)
    if error is not None:
        advice = f"{_NO_START}. {advice_for(directory.topic).epochs}"
        yield _problem("leader-epochs", f"{directory.path}/{LEADER_EPOCH_CHECKPOINT}", str(error), advice)
    if directory.kind is PartitionKind.NORMAL and directory.topic != METADATA_TOPIC:
        yield from _topic_id_problem(directory, known_topic_id)


def _topic_id_problem(directory: PartitionDir, known_id: str | None) -> Iterator[Problem]:
    """Kafka: PartitionMetadataFile, LogManager.isStrayKraftReplica."""
    text, topic_id = read_partition_metadata(directory.folder)
    if text is not None and topic_id is None:
        found, effect = repr(text[:100]), _NO_START
    elif known_id is None or topic_id == known_id:
        return
    else:
        found = "no such file" if topic_id is None else topic_id
        effect = "A broker renames the directory to -stray, and does not serve its records"
    if known_id is None:
        expected, written = "a topic id", "as kafka-topics --describe prints it"
    else:
        expected, written = f"the topic id {known_id}, as in the cluster metadata", known_id
    yield _problem(
        "topic-id",
        f"{directory.path}/{PARTITION_METADATA}",
        f"expected {expected}, found {found}",
        f"{effect}. If the records belong to that topic, the file needs two lines: version: 0 and topic_id: "
        f"{written}",
    )


def _problem(kind: str, path: str, problem: str, advice: str) -> Problem:
    return Problem(kind, path, None, None, problem, advice)
