"""Read the internal topics: groups with their lag, and transactional ids."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from native_log.checkpoints.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from native_log.errors import KafkaLogError, error_message
from native_log.internal_topics import tables
from native_log.internal_topics.records import rows_of
from native_log.logdir.internal_tables import (
    internal_logs,
    offset_retention,
    read_tables,
    topic_names,
)
from native_log.reporting.figures import CoordinatorFigures, GroupFigures, TransactionalId
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from native_log.log import PartitionLog
    from native_log.logdir import LogDir

MAX_TOPIC_BYTES = 256 << 20
"""Without `batches`, a larger internal topic is not read."""
_ENDED = {"Empty", "CompleteCommit", "CompleteAbort", "Dead"}


class Offsets(NamedTuple):
    """The offsets of a partition.

    Attributes:
        lag_end: where the lag of groups ends: see LogDir.lag_end_offset.
    """

    log_start: int
    lag_end: int
    log_end: int


def read_coordinators(
    log_dir: LogDir, offsets: Mapping[tuple[str, int], Offsets], *, all_batches: bool, now_ms: int
) -> CoordinatorFigures:
    """Read groups and transactional ids. Damaged bytes are skipped.

    Args:
        log_dir: the log directories.
        offsets: of all partitions, by topic and partition.
        all_batches: read the topics even if they are large.
        now_ms: the time that decides which committed offsets are expired.
    """
    reading = _Reading(log_dir, offsets, now_ms)
    figures = CoordinatorFigures()
    unread: dict[str, str] = {}
    for topic, read in (
        (OFFSETS_TOPIC, reading.groups),
        (SHARE_STATE_TOPIC, reading.share_groups),
        (TRANSACTIONS_TOPIC, reading.transactional_ids),
    ):
        if topic not in log_dir.topics():
            # A cluster that never had a share group does not have __share_group_state.
            if topic != SHARE_STATE_TOPIC or any(group.type == "share" for group in figures.groups or ()):
                unread[topic] = f"{topic} is not in these directories."
            continue
        try:
            logs = internal_logs(log_dir, topic)
            size_bytes = sum(log.size_bytes for log in logs)
            if size_bytes > MAX_TOPIC_BYTES and not all_batches:
                unread[topic] = (
                    f"{topic} was not read, because it has {format_size(size_bytes)}. Use --batches or "
                    "--full."
                )
                continue
            figures = read(figures, logs)
        except (KafkaLogError, OSError) as error:
            unread[topic] = f"{topic} cannot be read: {error_message(error)}."
    return replace(figures, unread=unread, undecodable=len(reading.undecodable))


class _Reading:
    """One reading of the internal topics.

    Attributes:
        undecodable: partition and offset of records that cannot be decoded.
    """

    def __init__(self, log_dir: LogDir, offsets: Mapping[tuple[str, int], Offsets], now_ms: int) -> None:
        self._log_dir = log_dir
        self._offsets = offsets
        self._mode = tables.read_options_of("dropMalformed")
        self._retention = offset_retention(now_ms, None)
        self.undecodable: set[tuple[str, int, int]] = set()

    @cached_property
    def _topic_names(self) -> Mapping[str, str]:
        return topic_names(self._log_dir)

    @cached_property
    def _ends(self) -> Mapping[tuple[str, int], int]:
        return {key: offsets.lag_end for key, offsets in self._offsets.items()}

    def groups(self, figures: CoordinatorFigures, logs: list[PartitionLog]) -> CoordinatorFigures:
        groups: dict[str, GroupFigures] = {}
        names, ends = self._topic_names, self._ends
        for row in self._rows(logs, lambda log: tables.groups(log, self._mode, names)):
            groups[row["group"]] = GroupFigures(
                row["group"], row["type"], row["state"], len(row["members"] or ())
            )
        for row in self._rows(logs, lambda log: tables.lag(log, self._mode, self._retention, ends)):
            group = groups.get(row["group"], GroupFigures(row["group"]))
            groups[row["group"]] = add_commit(group, row, self._offsets)
        return replace(figures, groups=_by_name(groups.values()))

    def share_groups(self, figures: CoordinatorFigures, logs: list[PartitionLog]) -> CoordinatorFigures:
        groups = {group.name: group for group in figures.groups or ()}
        names, ends = self._topic_names, self._ends
        for row in self._rows(logs, lambda log: tables.share_groups(log, self._mode, names, ends)):
            group = groups.get(row["group"], GroupFigures(row["group"], "share"))
            groups[row["group"]] = add_share_state(group, row, self._offsets)
        return replace(figures, groups=_by_name(groups.values()))

    def transactional_ids(self, figures: CoordinatorFigures, logs: list[PartitionLog]) -> CoordinatorFigures:
        transactional_ids = tuple(
            TransactionalId(
                row["transactionalId"],
                row["producerId"],
                row["state"],
                row["startTimestamp"],
                row["transactionTimeoutMs"],
                sum(len(entry["partitions"]) for entry in row["partitions"]),
            )
            for row in self._rows(logs, lambda log: tables.transaction_state(log, self._mode))
            if row["state"] not in _ENDED
        )
        return replace(figures, transactional_ids=transactional_ids)

    def _rows(
        self, logs: Sequence[PartitionLog], batches: Callable[[PartitionLog], Iterator[pa.RecordBatch]]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table that can be decoded."""
        for log, table in zip(logs, read_tables(self._log_dir, logs, batches), strict=True):
            for batch in table:
                yield from self._decoded_rows(log, batch)

    def _decoded_rows(self, log: PartitionLog, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        unwanted = {"recordKey", "recordValue", "metadata", "stateBatches"}
        for row in rows_of(batch.drop_columns([name for name in batch.schema.names if name in unwanted])):
            if row["error"] is None:
                yield row
            else:
                self.undecodable.add((log.topic, row["recordPartition"], row["recordOffset"]))


def add_commit(
    group: GroupFigures, row: Mapping[str, Any], offsets: Mapping[tuple[str, int], Offsets]
) -> GroupFigures:
    """Return the figures of a group with one more committed offset.

    Args:
        group: the figures so far.
        row: a row of LAG_SCHEMA, with its timestamps in epoch ms.
        offsets: of all partitions, by topic and partition.
    """
    group = replace(group, expired=group.expired + (row["state"] == "expired"))
    log = offsets.get((row["topic"], row["partition"]))
    lag = None if log is None or row["offset"] is None else log.lag_end - row["offset"]
    name = f"{row['topic']}-{row['partition']}"
    return _add_offset(group, name, row["offset"], lag, log, row["commitTimestamp"])


def add_share_state(
    group: GroupFigures, row: Mapping[str, Any], offsets: Mapping[tuple[str, int], Offsets]
) -> GroupFigures:
    """Return the figures of a share group with the state of one more partition.

    The figures do not change if it is not known yet where the group starts.

    Args:
        group: the figures so far.
        row: a row of SHARE_GROUPS_SCHEMA, with its timestamps in epoch ms.
        offsets: of all partitions, by topic and partition.
    """
    if row["startOffset"] is None:
        return group
    log = offsets.get((row["topic"], row["partition"]))
    name = f"{row['topic']}-{row['partition']}"
    return _add_offset(group, name, row["startOffset"], row["lag"], log, row["writeTimestamp"])


def _add_offset(
    group: GroupFigures,
    partition: str,
    offset: int | None,
    lag: int | None,
    log: Offsets | None,
    written_ms: int | None,
) -> GroupFigures:
    """Return the figures of a group with the offset and the lag of one more partition.

    Args:
        group: the figures so far.
        partition: its name.
        offset, lag: of the group in this partition; None: unknown.
        log: the offsets of the log; None: it is not in the directories.
        written_ms: when the group wrote the offset; None: unknown.
    """
    group = replace(
        group,
        partitions=group.partitions + 1,
        last_commit_ms=max(filter(None, (group.last_commit_ms, written_ms)), default=None),
    )
    if log is None or offset is None or lag is None:
        return group
    lag = max(0, lag)
    largest = group.largest_lag
    if lag and (largest is None or lag > largest[0]):
        largest = lag, partition
    return replace(
        group,
        known=group.known + 1,
        lag=group.lag + lag,
        largest_lag=largest,
        below_start=group.below_start + (offset < log.log_start),
        beyond_end=group.beyond_end + (offset > log.log_end),
    )


def _by_name(groups: Iterable[GroupFigures]) -> tuple[GroupFigures, ...]:
    return tuple(sorted(groups, key=lambda group: group.name))
