"""The folder of the option offsetStateLocation.

Spark's kafka source keeps its initial offsets in the query's checkpoint. A Python data source does not know
where the checkpoint is, so the user names a folder. Without it, a query that starts at `latest` and stops
before its first commit starts later the next time, and what was appended in between is never read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog_spark.errors import OptionError
from kafkalog_spark.read.stream_offsets import from_json, to_json
from native_log.logdir.discovery import local_path
from native_log.storage import read_file
from native_log.storage.writing import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_spark.options.offset_json import TopicPartition
    from kafkalog_spark.read.stream_offsets import Offsets

Content = TypeVar("Content")

INITIAL_OFFSETS = "initial-offsets.json"
LOG_IDENTITIES = "log-identities.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """What identifies the records of a partition that a stream has read.

    Attributes:
        topic_id: the id of the topic, which is another one if it is deleted and created again; None: unknown.
        offset: the offset after the last record that was read.
        leader_epoch: the leader epoch of that record; None: unknown.
    """

    topic_id: str | None
    offset: int
    leader_epoch: int | None


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

    def save_initial_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Save the initial offsets."""
        self._write(INITIAL_OFFSETS, {"offsets": to_json(offsets)}, flush=True)

    def identities(self) -> dict[TopicPartition, LogIdentity]:
        """Return the saved identities; empty if there are none. Raises OptionError."""
        return self._read(LOG_IDENTITIES, _identities) or {}

    def save_identities(self, identities: Mapping[TopicPartition, LogIdentity]) -> None:
        """Save the identities."""
        logs = identities.items()
        epochs = {tp: log.leader_epoch for tp, log in logs if log.leader_epoch is not None}
        content = {
            "topicIds": {tp.topic: log.topic_id for tp, log in logs if log.topic_id is not None},
            "offsets": to_json({tp: log.offset for tp, log in logs}),
            "leaderEpochs": to_json(epochs),
        }
        # They only make checks possible. After a power failure an older state does, so there is no flush.
        self._write(LOG_IDENTITIES, content, flush=False)

    def _read(self, name: str, parse: Callable[[dict[str, Any]], Content]) -> Content | None:
        if self._folder is None:
            return None
        path = self._folder / name
        try:
            content = json.loads(read_file(str(path)))
            if content["version"] != _VERSION:
                raise ValueError(f"version {content['version']}")
            return parse(content)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise OptionError(
                f"offsetStateLocation: expected JSON of version {_VERSION} in {path}, found something else "
                f"({error}); name a folder of this query, or remove the file to forget where it started"
            ) from None

    def _write(self, name: str, content: dict[str, Any], *, flush: bool) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSION, **content})
        replace_file(self._folder / name, text.encode(), flush=flush)


def _identities(content: dict[str, Any]) -> dict[TopicPartition, LogIdentity]:
    topic_ids, epochs = content["topicIds"], from_json(content["leaderEpochs"])
    return {
        tp: LogIdentity(topic_ids.get(tp.topic), offset, epochs.get(tp))
        for tp, offset in from_json(content["offsets"]).items()
    }
