"""`kafkalog groups`: list and describe groups as tables or as JSON."""

from __future__ import annotations

import base64
import csv
import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from native_log.checkpoints.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from native_log.cli.escapes import safe_text
from native_log.cli.hidden_records import warn_of_hidden_records
from native_log.cli.runner import print_error
from native_log.cli.tables import format_table
from native_log.errors import CorruptRecordError
from native_log.internal_topics.records import rows_of
from native_log.internal_topics.schemas import LAG_SCHEMA
from native_log.logdir.internal_tables import internal_logs
from native_log.sizes import format_count
from native_log.times import format_time_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import pyarrow as pa

    from native_log.logdir import LogDir

Row = dict[str, Any]

_LIST_HEAD = ("GROUP", "TYPE", "STATE", "MEMBERS", "PARTITIONS", "LAG")
_OFFSETS_HEAD = (
    *("TOPIC", "PARTITION", "OFFSET", "LOG END OFFSET", "LAG", "COMMITTED", "STATE"),
    *("CLIENT", "HOST", "MEMBER"),
)


@dataclass(slots=True)
class GroupListing:
    """Groups, in the order of their names.

    Attributes:
        groups: rows of GROUPS_SCHEMA by name, with times in epoch ms.
        offsets: rows of LAG_SCHEMA by group, likewise. Those of share groups have their start offsets.
        undecodable: the records that cannot be decoded, as the topic and the row.
    """

    groups: dict[str, Row]
    offsets: dict[str, list[Row]]
    undecodable: list[tuple[str, Row]] = field(default_factory=list)


def list_groups(log_dir: LogDir, names: Collection[str] = ()) -> GroupListing:
    """Return all groups, or the named ones.

    Raises:
        UsageError: there is no group of a name.
        UnknownTopicOrPartitionError: there are no groups.
    """
    warn_of_hidden_records(log_dir, internal_logs(log_dir, OFFSETS_TOPIC))
    undecodable: dict[tuple[str, int, int], Row] = {}

    def decoded(topic: str, reader: pa.RecordBatchReader) -> Iterator[Row]:
        for batch in reader:
            for row in rows_of(batch):
                if row["error"] is None:
                    if not names or row["group"] in names:
                        yield row
                else:
                    undecodable[topic, row["recordPartition"], row["recordOffset"]] = row

    groups = {row["group"]: row for row in decoded(OFFSETS_TOPIC, log_dir.groups())}
    offsets: dict[str, list[Row]] = {}
    for row in decoded(OFFSETS_TOPIC, log_dir.lag()):
        offsets.setdefault(row["group"], []).append(row)
    has_share_groups = any(group["type"] == "share" for group in groups.values())
    if has_share_groups and SHARE_STATE_TOPIC in log_dir.topics():
        for row in decoded(SHARE_STATE_TOPIC, log_dir.share_groups()):
            offsets.setdefault(row["group"], []).append(_lag_row(row))
    missing = [name for name in names if name not in groups]
    if missing:
        raise click.UsageError(
            f"there is no group {', '.join(map(_text, missing))}; leave out --group to list all groups"
        )
    for rows in offsets.values():
        rows.sort(key=lambda row: (row["topic"], row["partition"]))
    records = [(topic, row) for (topic, _, _), row in undecodable.items()]
    return GroupListing(dict(sorted(groups.items())), offsets, records)


def format_list(listing: GroupListing) -> str:
    """Format a table with a line for each group."""
    rows = []
    for name, group in listing.groups.items():
        offsets = listing.offsets.get(name, [])
        cells = _text(name), group["type"], group["state"], len(group["members"]), len(offsets)
        rows.append((*cells, _total_lag(offsets)))
    return "\n".join(format_table(_LIST_HEAD, rows))


def describe(listing: GroupListing) -> str:
    """Format a table for each group: a line for each partition that it committed, or that a member has."""
    return "\n\n".join(
        "\n".join([_headline(group), *format_table(_OFFSETS_HEAD, list(_partition_cells(group, offsets)))])
        for group, offsets in (
            (group, listing.offsets.get(name, [])) for name, group in listing.groups.items()
        )
    )


def format_json(listing: GroupListing) -> str:
    """Format one JSON document. Times are in epoch ms, bytes base64."""
    documents = [
        {
            **_plain(group, "group", "type", "state", "protocolType", "protocol", "leader", "epoch"),
            **_plain(group, "targetAssignmentEpoch", "stateTimestamp", "members"),
            "offsets": [
                _plain(row, "topic", "partition", "offset", "leaderEpoch", "metadata", "commitTimestamp")
                | _plain(row, "expireTimestamp", "logEndOffset", "lag", "state")
                for row in listing.offsets.get(name, [])
            ],
        }
        for name, group in listing.groups.items()
    ]
    document = {"groups": documents, "undecodable": len(listing.undecodable)}
    return json.dumps(document, indent=2, ensure_ascii=False, default=_base64)


def format_csv(listing: GroupListing) -> str:
    """Format committed offsets as `kafka-consumer-groups --reset-offsets --from-file` reads them.

    A line is topic,partition,offset for a single group, otherwise it begins with the group. Share groups are
    left out. Offsets count even if they have expired since: a broker deletes those that expire while it runs.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name, group in listing.groups.items():
        for row in listing.offsets.get(name, []) if group["type"] != "share" else []:
            if row["offset"] is not None:
                place = row["topic"], row["partition"], row["offset"]
                writer.writerow(place if len(listing.groups) == 1 else (name, *place))
    return text.getvalue().rstrip("\n")


def report_undecodable(listing: GroupListing) -> bool:
    """Print a line on stderr for each record that cannot be decoded. Return whether there are any."""
    for topic, row in listing.undecodable:
        place = f"{topic}-{row['recordPartition']}"
        print_error(CorruptRecordError(row["error"], path=place, offset=row["recordOffset"]))
    return bool(listing.undecodable)


def _lag_row(share: Row) -> Row:
    """Return a row of SHARE_GROUPS_SCHEMA as one of LAG_SCHEMA. `offset` is the start offset."""
    names = ("group", "partition", "leaderEpoch", "logEndOffset", "lag")
    return {
        **dict.fromkeys(LAG_SCHEMA.names),
        **_plain(share, *names),
        "topic": share["topic"] or share["topicId"],
        "offset": share["startOffset"],
        "commitTimestamp": share["writeTimestamp"],
    }


def _headline(group: Row) -> str:
    details = [f"{group['type']} group", group["state"]]
    if group["protocol"]:
        details.append(_text(group["protocol"]))
    if group["epoch"] is not None:
        details.append(f"{'generation' if group['type'] == 'classic' else 'epoch'} {group['epoch']}")
    details.append(format_count(len(group["members"]), "member"))
    return f"{_text(group['group'])}  ({', '.join(details)})"


def _partition_cells(group: Row, offsets: list[Row]) -> Iterator[tuple[object, ...]]:
    owners = _owners(group)
    for row in offsets:
        owner = owners.pop((row["topic"], row["partition"]), None)
        yield (
            *(_text(row["topic"]), row["partition"], row["offset"], row["logEndOffset"], row["lag"]),
            *(format_time_ms(row["commitTimestamp"]), row["state"], *_owner_cells(owner)),
        )
    for (topic, partition), owner in sorted(owners.items()):
        yield (_text(topic), partition, None, None, None, None, None, *_owner_cells(owner))


def _owners(group: Row) -> dict[tuple[str, int], Row]:
    return {
        (entry["topic"] or entry["topicId"], partition): member
        for member in group["members"]
        for entry in member["assignment"] or ()
        if entry["topic"] or entry["topicId"]
        for partition in entry["partitions"]
    }


def _owner_cells(member: Mapping[str, Any] | None) -> tuple[str | None, ...]:
    if member is None:
        return None, None, None
    return tuple(_text(member[name]) for name in ("clientId", "clientHost", "memberId"))


def _total_lag(offsets: list[Row]) -> int | None:
    """Return the sum of the known lags; a negative one counts as 0. None: none is known."""
    known = [max(0, row["lag"]) for row in offsets if row["lag"] is not None]
    return sum(known) if known else None


def _text(value: str) -> str:
    """Escape what a terminal would execute: names of groups and clients can have any characters."""
    return safe_text(value.replace("\\", "\\\\"))


def _plain(row: Row, *names: str) -> Row:
    return {name: row[name] for name in names}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
