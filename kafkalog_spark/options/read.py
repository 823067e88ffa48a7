"""Parse and validate the read options. Needs no Spark session and opens no file.

Names, grammar, precedence and rejected options are those of Spark's kafka source (KafkaSourceProvider). An
option that another one overrides is not parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.java_regex import compile_java
from kafkalog_spark.options.offset_json import (
    OFFSETS_EXAMPLE,
    TIMESTAMPS_EXAMPLE,
    parse_assign,
    parse_partition_longs,
)
from kafkalog_spark.options.raw import RawOptions
from kafkalog_spark.options.storage import parse_storage_options
from kafkalog_spark.options.topics import AllTopics, Assign, Selection, Subscribe, SubscribePattern
from kafkalog_spark.read.offsets import (
    Earliest,
    GlobalTimestamp,
    Latest,
    Limit,
    SpecificOffsets,
    SpecificTimestamps,
    Strategy,
    check_batch_start,
    check_limits,
)
from kafkalog_spark.views import VIEWS
from kafkalog_spark.views.internal import INTERNAL_VIEWS
from native_log.internal_topics.offset_expiration import DEFAULT_RETENTION_MINUTES
from native_log.java_numbers import parse_int
from native_log.storage import StorageOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from native_log.arguments import HighWatermark, IsolationLevel, Mode, Replicas
    from native_log.log.tiers.detection import RemoteLayout
    from native_log.logdir.remote_storage import RemoteArguments


_EARLIEST = Earliest()
SELECTION_OPTIONS = ("subscribe", "subscribePattern", "assign")
ENDING_OPTIONS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
"""Options that a stream does not have."""
UNSUPPORTED = {
    "kafka.auto.offset.reset": "use startingOffsets to say where the read starts",
    "kafka.key.deserializer": "keys are read as bytes; use DataFrame operations to deserialize them",
    "kafka.value.deserializer": "values are read as bytes; use DataFrame operations to deserialize them",
    "kafka.enable.auto.commit": "reads commit no offsets",
    "kafka.interceptor.classes": "interceptors would change the data that the query reads",
}
"""Options that Spark's kafka source rejects, with the reason."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The read options after parsing.

    Attributes:
        strategy: what to do if no record is at or after a starting timestamp.
        max_records_per_partition, max_bytes_per_partition: limits of one Spark partition, so of one task.
        columns: their names; None: the default columns of the view.
        view: "records", "latest", or a name in VIEWS or INTERNAL_VIEWS.
        history, as_of_offset, offsets_retention_minutes: see INTERNAL_VIEWS.
        max_batch_bytes: a larger batch is treated as damaged.
        replicas: what is read if several paths contain the same partition: see LogDir.
        remote: the arguments of LogDir for remote storage; empty: there is none.
        storage_options: credentials and other settings for paths that are URLs.
        where: a condition in SQL on the rows; None: all rows.
        key_partitions: how many partitions a topic has whose partitions were chosen by key; None: unknown.
        push_filters: whether Spark pushes its conditions down.
        map_function: the function that is applied to record batches; None: there is none.
    """

    paths: tuple[str, ...]
    selection: Selection
    start: Limit
    end: Limit
    strategy: Strategy
    min_partitions: int | None
    max_records_per_partition: int | None
    max_bytes_per_partition: int
    fail_on_data_loss: bool
    include_headers: bool
    isolation_level: IsolationLevel
    check_crcs: bool
    mode: Mode
    columns: tuple[str, ...] | None
    view: str
    history: bool
    as_of_offset: int | None
    offsets_retention_minutes: int
    include_internal: bool
    include_deleted: bool
    high_watermark: HighWatermark
    max_batch_bytes: int
    replicas: Replicas
    remote: RemoteArguments
    storage_options: StorageOptions
    where: str | None
    key_partitions: int | None
    push_filters: bool
    map_function: str | None


def parse_read_options(options: Mapping[str, str], default_start: Limit = _EARLIEST) -> ReadOptions:
    """Parse the read options. The case of names does not matter.

    Unknown options are ignored, because catalog tables add their own, unless they look like misspellings.
    A start at latest is accepted, because Spark does not tell a data source at load() whether the query is a
    stream: a batch read must call check_batch_start.

    Args:
        default_start: where to start if no option says it.

    Raises:
        OptionError: an option or a combination of options is invalid.
    """
    raw = RawOptions(options)
    raw.check_spelling()
    _reject_unsupported(raw)
    start = _parse_limit(raw, "starting", default_start)
    end = _parse_limit(raw, "ending", Latest())
    remote = _parse_remote(raw)
    parsed = ReadOptions(
        paths=() if remote and not raw.has_path else raw.paths(),
        selection=_parse_selection(raw),
        start=start,
        end=end,
        strategy=raw.choice("startingOffsetsByTimestampStrategy", "error", "latest"),
        min_partitions=raw.positive("minPartitions", 32),
        max_records_per_partition=raw.positive("maxRecordsPerPartition", 64),
        max_bytes_per_partition=raw.size_bytes("maxBytesPerPartition", 128 << 20),
        fail_on_data_loss=raw.boolean("failOnDataLoss", True),
        include_headers=raw.boolean("includeHeaders", False),
        isolation_level=_parse_isolation_level(raw),
        check_crcs=raw.boolean("kafka.check.crcs", True, trim=True),
        mode=raw.choice("mode", "failFast", "dropMalformed", "permissive"),
        columns=raw.names("columns"),
        view=_parse_view(raw),
        history=raw.boolean("history", False),
        as_of_offset=raw.long("asOfOffset"),
        offsets_retention_minutes=raw.positive("offsets.retention.minutes", 32) or DEFAULT_RETENTION_MINUTES,
        include_internal=raw.boolean("includeInternal", False),
        include_deleted=raw.boolean("includeDeleted", False),
        high_watermark=raw.choice("highWatermark", "auto", "ignore", "checkpoint"),
        max_batch_bytes=raw.size_bytes("maxBatchBytes", 256 << 20),
        replicas=raw.choice("replicas", "longest", "merge"),
        remote=remote,
        storage_options=StorageOptions(parse_storage_options(raw.values)),
        where=raw.get("where"),
        key_partitions=raw.positive("keyPartitions", 32),
        push_filters=raw.boolean("pushFilters", False),
        map_function=raw.get("mapInArrow"),
    )
    check_limits(start, end)
    if parsed.view != "records" or any(raw.get(name) is not None for name in ENDING_OPTIONS):
        check_batch_start(start)
    _check_trigger_limits(raw)
    return parsed


def _reject_unsupported(raw: RawOptions) -> None:
    for name, reason in UNSUPPORTED.items():
        if name in raw.values:
            raise OptionError(f"option {name} is not supported: {reason}")


def _parse_selection(raw: RawOptions) -> Selection:
    named = [name for name in SELECTION_OPTIONS if raw.get(name) is not None]
    if len(named) > 1:
        raise OptionError(f"expected only one of {', '.join(SELECTION_OPTIONS)}, found {', '.join(named)}")
    if (text := raw.get("subscribe")) is not None:
        topics = frozenset(topic.strip() for topic in text.split(",") if topic.strip())
        if not topics:
            raise OptionError(f"subscribe: expected a list of topics such as orders,payments, found {text!r}")
        return Subscribe(topics)
    if (text := raw.get("subscribePattern")) is not None:
        if not text.strip():
            raise OptionError(
                f"subscribePattern: expected a regular expression such as orders.*, found {text!r}"
            )
        try:
            return SubscribePattern(compile_java(text.strip()))
        except (ValueError, re.error, RecursionError) as error:
            raise OptionError(
                f"subscribePattern: cannot use the regular expression {text!r}: {error}"
            ) from None
    if (text := raw.get("assign")) is not None:
        if not text.strip().startswith("{"):
            raise OptionError(
                f'assign: expected partitions such as {{"topicA":[0,1],"topicB":[0,1]}}, found {text!r}'
            )
        return Assign(parse_assign("assign", text))
    for wrong in ("topic", "topics"):
        if raw.get(wrong) is not None:
            raise OptionError(f"unknown option {wrong!r}: did you mean subscribe?")
    return AllTopics()


def _parse_limit(raw: RawOptions, edge: Literal["starting", "ending"], default: Limit) -> Limit:
    if (text := raw.get(f"{edge}Timestamp")) is not None:
        try:
            return GlobalTimestamp(parse_int(text.strip(), 64))
        except ValueError:
            raise OptionError(
                f"{edge}Timestamp: expected an integer of 64 bits (epoch ms), found {text}"
            ) from None
    if (text := raw.get(f"{edge}OffsetsByTimestamp")) is not None:
        return SpecificTimestamps(
            parse_partition_longs(f"{edge}OffsetsByTimestamp", text, TIMESTAMPS_EXAMPLE)
        )
    if (text := raw.get(f"{edge}Offsets")) is not None:
        word = text.strip().lower()
        if word in ("earliest", "latest"):
            return Earliest() if word == "earliest" else Latest()
        return SpecificOffsets(parse_partition_longs(f"{edge}Offsets", text, OFFSETS_EXAMPLE))
    return default


def _parse_isolation_level(raw: RawOptions) -> IsolationLevel:
    value = raw.get("kafka.isolation.level")
    # Kafka's ConfigDef trims the value, but its case matters.
    level = "read_uncommitted" if value is None else value.strip()
    if level not in ("read_uncommitted", "read_committed"):
        raise OptionError(
            f"kafka.isolation.level: expected read_committed or read_uncommitted, found {value!r}"
        )
    return cast("IsolationLevel", level)


def _parse_remote(raw: RawOptions) -> RemoteArguments:
    layout: RemoteLayout = raw.choice("remote.layout", "auto", "local", "aiven", "pinterest")
    remote, prefix, keys, metadata = (
        raw.get(name) for name in ("remote", "remote.prefix", "remote.keys", "remote.metadata")
    )
    if remote is None:
        given = {"remote.prefix": prefix, "remote.keys": keys, "remote.metadata": metadata}
        given["remote.layout"] = None if layout == "auto" else layout
        for name, value in given.items():
            if value is not None:
                raise OptionError(f"{name}: expected the folder of remote storage in remote, found none")
        return {}
    return {
        "remote": remote,
        "remote_layout": layout,
        "remote_prefix": prefix or "",
        "remote_keys": keys,
        "remote_metadata": metadata,
    }


def _parse_view(raw: RawOptions) -> str:
    view = raw.choice("view", "records", "latest", "counts", *VIEWS, *INTERNAL_VIEWS)
    if view not in ("records", "latest"):
        for name in ("mapInArrow", "pushFilters"):
            if raw.get(name) is not None:
                raise OptionError(f"{name}: expected view=records or latest, found view={view}")
    if view in ("latest", "counts"):
        for name in ("minPartitions", "maxRecordsPerPartition"):
            if raw.get(name) is not None:
                raise OptionError(f"view={view} reads each partition in one task; remove {name}")
    if view in ("latest", "counts", *INTERNAL_VIEWS) and (raw.get("mode") or "").lower() == "permissive":
        raise OptionError(
            f"mode: expected failFast or dropMalformed, found permissive; view={view} has no rows for "
            "damaged batches"
        )
    if view in INTERNAL_VIEWS:
        _check_internal_view(raw, view)
    return view


def _check_internal_view(raw: RawOptions, view: str) -> None:
    for name in SELECTION_OPTIONS:
        if raw.get(name) is not None:
            topic = INTERNAL_VIEWS[view].topic
            raise OptionError(f"view={view} reads the topic {topic}; remove {name}, and filter the rows")
    if raw.boolean("history", False) and not INTERNAL_VIEWS[view].has_history:
        able = [name for name, each in INTERNAL_VIEWS.items() if each.has_history]
        raise OptionError(f"history: expected view={' or '.join(able)}, found view={view}; remove history")
    if raw.get("asOfOffset") is not None and not INTERNAL_VIEWS[view].has_as_of_offset:
        raise OptionError(f"asOfOffset: expected view=cluster_metadata, found view={view}; remove asOfOffset")


def _check_trigger_limits(raw: RawOptions) -> None:
    """Compare the limits of triggers. Of the options for streams, Spark checks only this at load()."""
    if raw.get("minOffsetsPerTrigger") is None or raw.get("maxOffsetsPerTrigger") is None:
        return
    least, most = raw.long("minOffsetsPerTrigger"), raw.long("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger {least} is greater than maxOffsetsPerTrigger {most}")
