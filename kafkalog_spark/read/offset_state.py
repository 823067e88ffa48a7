"""The folder of the option offsetStateLocation.

Spark's kafka source keeps its initial offsets in the query's checkpoint. A Python data source does not know
where the checkpoint is, so the user names a folder. Without it, a query that starts at `latest` and stops
before its first commit starts later the next time, and what was appended in between is never read.
"""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.offset_json import TopicPartition
from kafkalog_spark.read.stream_offsets import from_json, to_json
from native_log.logdir.discovery import local_path
from native_log.storage import read_file
from native_log.storage.writing import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_spark.read.stream_offsets import Offsets

Content = TypeVar("Content")

INITIAL_OFFSETS = "initial-offsets.json"
LOG_IDENTITIES = "log-identities.json"
_VERSIONS = {INITIAL_OFFSETS: 1, LOG_IDENTITIES: 2}


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """What identifies the records of a partition that a stream has read.

    Attributes:
        topic_id: the id of the topic, which is another one if it is deleted and created again; None: unknown.
        offset: the offset after the last record that was read.
        leader_epoch: the leader epoch of that record; None: unknown.
        position: the offset at which the stream continues. It is above `offset` if the log was shorter than
            planned when it was read.
    """

    topic_id: str | None
    offset: int
    leader_epoch: int | None
    position: int


Identities = dict[TopicPartition, LogIdentity]
"""What a stream has read of each partition."""


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The micro-batch that was planned last. If the query stops before it is committed, it is run again.

    Attributes:
        starts, ends: its offsets.
        before: what was read before it.
        after: what is read with it.
    """

    starts: Offsets
    ends: Offsets
    before: Identities
    after: Identities


class OffsetState:
    """Keeps the initial offsets of a query, and the identities of its logs, in a folder.

    Each query needs a folder of its own, for as long as it has the same checkpoint.

    Args:
        location: the folder, a local path; it is created if it is missing. None: nothing is kept.
    """

    def __init__(self, location: str | None) -> None:
        self._folder = None if location is None else local_path(location)

    @property
    def is_kept(self) -> bool:
        """Whether there is a folder."""
        return self._folder is not None

    def initial_offsets(self) -> Offsets | None:
        """Return the saved initial offsets; None if there are none. Raises OptionError."""
        return self._read(INITIAL_OFFSETS, lambda content: from_json(content["offsets"]))

    def initial_identities(self) -> Identities:
        """Return the identities of the logs to which the initial offsets belong. Raises OptionError."""
        return self._read(INITIAL_OFFSETS, lambda content: _from_json(content.get("logs", {}))) or {}

    def save_initial_offsets(self, offsets: Mapping[TopicPartition, int], identities: Identities) -> None:
        """Save the initial offsets, and the identities of their logs."""
        self._write(INITIAL_OFFSETS, {"offsets": to_json(offsets), "logs": _to_json(identities)}, flush=True)

    def planned_batch(self) -> PlannedBatch | None:
        """Return the micro-batch that was planned last; None if none is saved. Raises OptionError."""
        return self._read(LOG_IDENTITIES, _planned_batch)

    def save_planned_batch(self, batch: PlannedBatch) -> None:
        """Save a micro-batch that was planned."""
        changed = {tp: log for tp, log in batch.before.items() if batch.after.get(tp) != log}
        content = {
            "start": to_json(batch.starts),
            "end": to_json(batch.ends),
            "logs": _to_json(batch.after),
            "before": _to_json(changed),
        }
        # They only make checks possible. After a power failure an older state does, so there is no flush.
        self._write(LOG_IDENTITIES, content, flush=False)

    def _read(self, name: str, parse: Callable[[dict[str, Any]], Content]) -> Content | None:
        if self._folder is None:
            return None
        path = self._folder / name
        try:
            content = json.loads(read_file(str(path)))
            if content["version"] != _VERSIONS[name]:
                raise ValueError(f"version {content['version']}")
            return parse(content)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise OptionError(
                f"offsetStateLocation: expected JSON of version {_VERSIONS[name]} in {path}, found something "
                f"else ({error}); name a folder of this query, or remove the file to forget where it started"
            ) from None

    def _write(self, name: str, content: dict[str, Any], *, flush: bool) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSIONS[name], **content})
        replace_file(self._folder / name, text.encode(), flush=flush)


def _planned_batch(content: dict[str, Any]) -> PlannedBatch:
    after = _from_json(content["logs"])
    before = after | _from_json(content["before"])
    return PlannedBatch(from_json(content["start"]), from_json(content["end"]), before, after)


def _to_json(identities: Identities) -> dict[str, dict[str, list[object]]]:
    """Return {"topic": {"partition": [topic id, offset, leader epoch, position]}}."""
    tree: dict[str, dict[str, list[object]]] = {}
    for (topic, partition), log in identities.items():
        row: list[object] = [log.topic_id, log.offset, log.leader_epoch, log.position]
        tree.setdefault(topic, {})[str(partition)] = row
    return tree


def _from_json(tree: Mapping[str, Mapping[str, list[Any]]]) -> Identities:
    identities = {}
    for topic, by_partition in tree.items():
        for partition, (topic_id, offset, epoch, position) in by_partition.items():
            epoch = None if epoch is None else operator.index(epoch)
            log = LogIdentity(topic_id, operator.index(offset), epoch, operator.index(position))
            identities[TopicPartition(topic, int(partition))] = log
    return identities
