"""Check log directories for what a broker would reject, apart from the records.

A broker does not start if a file is malformed or a directory is not a partition. It renames partitions with
another topic id to `-stray`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT, malformed_leader_epochs
from native_log.checkpoints.meta_properties import META_PROPERTIES, malformed_meta_properties
from native_log.checkpoints.names import BOOTSTRAP_FILE, METADATA_TOPIC, PartitionKind, is_broker_directory
from native_log.checkpoints.offset_checkpoints import malformed_advice, malformed_checkpoints
from native_log.checkpoints.partition_metadata import PARTITION_METADATA, read_partition_metadata
from native_log.errors import CorruptRecordError
from native_log.log.problems import Problem, advice_for
from native_log.storage import LOCAL, path_of
from native_log.storage.ownership import files_of_others

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from native_log.logdir.catalog import PartitionCandidates
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import PartitionDir
    from native_log.storage import Folder

MALFORMED_FILE = "malformed-file"
QUORUM_STATE = "quorum-state"
"""The file in the directory of __cluster_metadata that has the state of its Raft quorum."""
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Kafka: Uuid.METADATA_TOPIC_ID."""
_NO_START = "A broker does not start with it"


def root_problems(states: Mapping[Path, DirectoryState], found: PartitionCandidates) -> Iterator[Problem]:
    """Yield what a broker would reject in the roots of log directories.

    Args:
        states: the states of the log directories, by path.
        found: the directories in them.
    """
    for state in states.values():
        yield from _malformed_files(state.folder)
        yield from _files_of_others(state.folder, state.path)
    for path in found.skipped:
        if not is_broker_directory(path.name):
            expected = "expected directories named <topic>-<partition> only, found another one"
            yield _problem("foreign-directory", str(path), expected, f"{_NO_START}. Move it elsewhere")
    for directories in found.candidates.values():
        if len(directories) > 1:
            yield from _duplicates(directories, states)


def _files_of_others(folder: Folder, log_dir: Path) -> Iterator[Problem]:
    """Yield a problem if the owner of the log directory, as whom a broker runs, may not write some files."""
    if folder.storage is not LOCAL:
        return
    owner = log_dir.stat()
    if owner.st_uid == 0:  # root may write all files
        return
    found = files_of_others(path_of(folder.path), owner.st_uid)
    if found:
        (path, other), *more = found
        problem = (
            f"expected a file of the log directory's owner (user {owner.st_uid}), found one of user {other}"
        )
        if more:
            problem += f", and {len(more)} more files of others in {folder}"
        advice = f"A broker that runs as the owner cannot write it: chown -R {owner.st_uid}:{owner.st_gid}"
        yield _problem("owner", path, problem, f"{advice} {log_dir}")


def _malformed_files(log_dir: Folder) -> Iterator[Problem]:
    reason = malformed_meta_properties(log_dir)
    if reason is not None:
        advice = f"{_NO_START}. Restore it: it has version, cluster.id and node.id, one on each line"
        yield _problem(MALFORMED_FILE, f"{log_dir}/{META_PROPERTIES}", reason, advice)
    for name, error in malformed_checkpoints(log_dir).items():
        yield _problem(MALFORMED_FILE, f"{log_dir}/{name}", str(error), malformed_advice(name))
    problem = metadata_file_problem(log_dir, BOOTSTRAP_FILE)
    if problem is not None:
        yield problem


def metadata_file_problem(folder: Folder, name: str) -> Problem | None:
    """Return what is wrong with a snapshot of the cluster metadata, or with quorum-state; None if nothing is.

    A missing file is not a problem.
    """
    try:
        if name == QUORUM_STATE:
            return _quorum_state_problem(folder)
        return _snapshot_problem(folder, name)
    except FileNotFoundError:
        return None


def _snapshot_problem(folder: Folder, name: str) -> Problem | None:
    from native_log.internal_topics.metadata_log import check_snapshot  # takes long to import

    try:
        check_snapshot(folder, name)
    except CorruptRecordError as error:
        expected = "expected a complete snapshot of the cluster metadata, found a damaged one"
        advice = f"{_NO_START}, unless only its end is missing. Take it from another node or from a backup"
        return Problem(MALFORMED_FILE, f"{folder}/{name}", error.position, None, expected, advice)
    return None


def _quorum_state_problem(folder: Folder) -> Problem | None:
    try:
        is_object = isinstance(json.loads(folder.read(QUORUM_STATE)), dict)
    except ValueError:
        is_object = False
    if is_object:
        return None
    expected = "expected a JSON object, found something else"
    advice = f"{_NO_START}. Restore it from a backup: it says for which controller this one voted"
    return _problem(MALFORMED_FILE, f"{folder}/{QUORUM_STATE}", expected, advice)


def _duplicates(
    directories: Iterable[PartitionDir], states: Mapping[Path, DirectoryState]
) -> Iterator[Problem]:
    """Yield a partition that several log directories of one broker contain (Kafka: LogManager.loadLog).

    Directories with the same id are copies of one log directory, which no broker has together.
    """
    by_broker: dict[tuple[str, int], dict[str, PartitionDir]] = {}
    for directory in directories:
        known = states[directory.path.parent].meta_properties
        if known is None or directory.kind is not PartitionKind.NORMAL:
            continue
        if known.cluster_id is not None and known.node_id is not None and known.directory_id is not None:
            copies = by_broker.setdefault((known.cluster_id, known.node_id), {})
            copies.setdefault(known.directory_id, directory)
    for copies in by_broker.values():
        first, *others = copies.values()
        for other in others:
            yield _problem(
                "duplicate",
                str(other.path),
                f"expected the partition in one log directory of the broker, found it in {first.path}, too",
                "A broker does not start with both. kafkalog diff compares them; move one elsewhere",
            )


def partition_problems(
    directory: PartitionDir, known_topic_id: str | None, *, is_live: bool
) -> Iterator[Problem]:
    """Yield what a broker would reject among the checkpoint and metadata files of a partition directory.

    Args:
        directory: the partition directory.
        known_topic_id: the topic's id in the cluster metadata; None: it is unknown.
        is_live: a broker runs, which may not have written partition.metadata of a new partition yet.
    """
    error = malformed_leader_epochs(directory.folder)
    if error is not None:
        advice = f"{_NO_START}. {advice_for(directory.topic).epochs}"
        yield _problem("leader-epochs", f"{directory.path}/{LEADER_EPOCH_CHECKPOINT}", str(error), advice)
    yield from _files_of_others(directory.folder, directory.path.parent)
    if directory.topic == METADATA_TOPIC:
        from native_log.internal_topics.metadata_log import last_snapshot  # takes long to import

        _, snapshot = last_snapshot(directory.folder)
        for name in (QUORUM_STATE, snapshot):
            problem = None if name is None else metadata_file_problem(directory.folder, name)
            if problem is not None:
                yield problem
    if directory.kind is PartitionKind.NORMAL:
        yield from _topic_id_problem(directory, known_topic_id, is_live=is_live)


def _topic_id_problem(directory: PartitionDir, known_id: str | None, *, is_live: bool) -> Iterator[Problem]:
    """Kafka: PartitionMetadataFile, LogManager.isStrayKraftReplica."""
    text, topic_id = read_partition_metadata(directory.folder)
    if text is None and (is_live or directory.topic == METADATA_TOPIC):
        return
    if text is not None and topic_id is None:
        found, effect = repr(text[:100]), _NO_START
    elif known_id is None or topic_id == known_id:
        return
    else:
        found = "no such file" if topic_id is None else topic_id
        effect = "A broker renames the directory to -stray, and does not serve its records"
    if directory.topic == METADATA_TOPIC:
        expected = written = METADATA_TOPIC_ID
    elif known_id is None:
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
