"""The read options: one parser, one validation, one frozen result. Knows no Spark session, opens no file.

Names, grammar, precedence (by presence: an option that another overrides is not even parsed) and refusals are
those of Spark's kafka source (KafkaSourceProvider).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.java_regex import compile_java
from kafkalog_spark.options.names import slips
from kafkalog_spark.options.offset_json import (
    OFFSETS_EXAMPLE,
    TIMESTAMPS_EXAMPLE,
    parse_assign,
    parse_int,
    parse_partition_longs,
)
from kafkalog_spark.options.topics import AllTopics, Assign, Selection, Subscribe, SubscribePattern
from kafkalog_spark.read.offsets import (
    Earliest,
    GlobalTimestamp,
    Latest,
    Limit,
    SpecificOffsets,
    SpecificTimestamps,
    Strategy,
    check_batch_limits,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from native_log.arguments import HighWatermark, IsolationLevel, Mode

View = Literal["records", "latest", "batches", "segments", "partitions", "transactions"]

SELECTIONS = ("subscribe", "subscribePattern", "assign")
PROTECTED = {
    "kafka.auto.offset.reset": "startingOffsets says where a read starts",
    "kafka.key.deserializer": "keys are read as bytes; DataFrame operations make of them what you need",
    "kafka.value.deserializer": "values are read as bytes; DataFrame operations make of them what you need",
    "kafka.enable.auto.commit": "nothing is committed",
    "kafka.interceptor.classes": "interceptors would change the data that the query sees",
}
SIZE_UNITS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}

Word = TypeVar("Word", bound=str)


@dataclass(frozen=True, slots=True)
class ReadOptions:
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
    view: View
    include_internal: bool
    include_deleted: bool
    high_watermark: HighWatermark
    max_batch_bytes: int


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Raises OptionError. Names of options may be in any case.

    Unknown ones are ignored, since tables in a catalog bring some of their own, unless they look like slips.
    """
    given = Given(options)
    given.check_names()
    start = _limit(given, "starting", Earliest())
    end = _limit(given, "ending", Latest())
    parsed = ReadOptions(
        paths=_paths(given),
        selection=_selection(given),
        start=start,
        end=end,
        strategy=given.word("startingOffsetsByTimestampStrategy", "error", "latest"),
        min_partitions=given.positive("minPartitions", 32),
        max_records_per_partition=given.positive("maxRecordsPerPartition", 64),
        max_bytes_per_partition=given.size_bytes("maxBytesPerPartition", 128 << 20),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        include_headers=given.boolean("includeHeaders", False),
        isolation_level=_isolation_level(given),
        check_crcs=given.boolean("kafka.check.crcs", True, trim=True),
        mode=given.word("mode", "failFast", "dropMalformed", "permissive"),
        columns=given.names("columns"),
        view=_view(given),
        include_internal=given.boolean("includeInternal", False),
        include_deleted=given.boolean("includeDeleted", False),
        high_watermark=given.word("highWatermark", "auto", "ignore", "checkpoint"),
        max_batch_bytes=given.size_bytes("maxBatchBytes", 256 << 20),
    )
    check_batch_limits(start, end)
    _check_trigger_limits(given)
    return parsed


class Given:
    """Options as they were given, by lower-case name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.values = {name.lower(): value for name, value in options.items()}

    def get(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def check_names(self) -> None:
        # A catalog table repeats its options as option.<name>.
        for name, meant in slips(n for n in self.values if not n.startswith("option.")).items():
            raise OptionError(f"unknown option {name!r}: did you mean {meant}?")
        for name, reason in PROTECTED.items():
            if name in self.values:
                raise OptionError(f"option {name} is not supported: {reason}")

    def check_write_names(self, names: Collection[str]) -> None:
        for name, meant in slips((n for n in self.values if not n.startswith("option.")), names).items():
            raise OptionError(f"unknown option {name!r}: did you mean {meant}?")

    def paths(self) -> tuple[str, ...]:
        """The log directories. Raises OptionError."""
        return _paths(self)

    def boolean(self, name: str, default: bool, *, trim: bool = False) -> bool:
        value = self.get(name)
        if value is None:
            return default
        word = (value.strip() if trim else value).lower()
        if word not in ("true", "false"):
            raise OptionError(f"{name}: {value!r} is not a boolean; expected true or false")
        return word == "true"

    def positive(self, name: str, bits: int) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        number = self._number(name, value, bits)
        if number <= 0:
            raise OptionError(f"{name}: expected a number of 1 or more, got {value}")
        return number

    def long(self, name: str) -> int | None:
        value = self.get(name)
        return None if value is None else self._number(name, value, 64)

    def _number(self, name: str, value: str, bits: int) -> int:
        try:
            return parse_int(value, bits)
        except ValueError:
            raise OptionError(
                f"{name}: {value!r} is not a number; expected a whole one of {bits} bits"
            ) from None

    def size_bytes(self, name: str, default: int) -> int:
        value = self.get(name)
        if value is None:
            return default
        match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower())
        if not match or match[2].replace("ib", "b") not in SIZE_UNITS or int(match[1]) == 0:
            raise OptionError(f"{name}: expected a size such as 134217728, 512k, 128m or 2g, got {value!r}")
        return int(match[1]) << SIZE_UNITS[match[2].replace("ib", "b")]

    def word(self, name: str, *words: Word) -> Word:
        """One of the words, in any case; the first one if the option is not given."""
        value = self.get(name)
        found = next((word for word in words if value is None or word.lower() == value.lower()), None)
        if found is None:
            raise OptionError(f"{name}: expected {', '.join(words[:-1])} or {words[-1]}, got {value!r}")
        return found

    def names(self, name: str) -> tuple[str, ...] | None:
        value = self.get(name)
        if value is None:
            return None
        listed = tuple(item.strip() for item in value.split(","))
        if "" in listed:
            raise OptionError(f"{name}: expected a list such as offset,timestamp,value, got {value!r}")
        return listed


def _paths(given: Given) -> tuple[str, ...]:
    path, paths = given.get("path"), given.get("paths")
    if path is not None:
        listed = [path]
    elif paths is not None:
        try:
            listed = json.loads(paths)
        except ValueError:
            listed = None
        if not (isinstance(listed, list) and all(isinstance(p, str) for p in listed)):
            raise OptionError(f'paths: expected a JSON list such as ["/disk1/kafka-logs"], got {paths}')
    else:
        location = given.get("location")
        listed = [] if location is None else [location]
    if not listed or not all(p.strip() for p in listed):
        raise OptionError(
            "no path is given: expected a Kafka log directory or a partition directory, "
            'as in load("/var/kafka-logs")'
        )
    return tuple(listed)


def _selection(given: Given) -> Selection:
    named = [name for name in SELECTIONS if given.get(name) is not None]
    if len(named) > 1:
        raise OptionError(
            f"only one of subscribe, subscribePattern and assign can be given, got {', '.join(named)}"
        )
    if (text := given.get("subscribe")) is not None:
        topics = frozenset(topic.strip() for topic in text.split(",") if topic.strip())
        if not topics:
            raise OptionError(f"subscribe: expected a list of topics such as orders,payments, got {text!r}")
        return Subscribe(topics)
    if (text := given.get("subscribePattern")) is not None:
        if not text.strip():
            raise OptionError(
                f"subscribePattern: expected a regular expression such as orders.*, got {text!r}"
            )
        try:
            return SubscribePattern(compile_java(text.strip()))
        except (ValueError, re.error, RecursionError) as error:
            raise OptionError(
                f"subscribePattern: cannot use the regular expression {text!r}: {error}"
            ) from None
    if (text := given.get("assign")) is not None:
        if not text.strip().startswith("{"):
            raise OptionError(
                f'assign: expected partitions such as {{"topicA":[0,1],"topicB":[0,1]}}, got {text!r}'
            )
        return Assign(parse_assign("assign", text))
    for wrong in ("topic", "topics"):
        if given.get(wrong) is not None:
            raise OptionError(f"unknown option {wrong!r}: did you mean subscribe?")
    return AllTopics()


def _limit(given: Given, edge: Literal["starting", "ending"], default: Limit) -> Limit:
    if (text := given.get(f"{edge}Timestamp")) is not None:
        try:
            return GlobalTimestamp(parse_int(text.strip(), 64))
        except ValueError:
            raise OptionError(
                f"{edge}Timestamp: expected a single long value (epoch ms), got {text}"
            ) from None
    if (text := given.get(f"{edge}OffsetsByTimestamp")) is not None:
        return SpecificTimestamps(
            parse_partition_longs(f"{edge}OffsetsByTimestamp", text, TIMESTAMPS_EXAMPLE)
        )
    if (text := given.get(f"{edge}Offsets")) is not None:
        word = text.strip().lower()
        if word in ("earliest", "latest"):
            return Earliest() if word == "earliest" else Latest()
        return SpecificOffsets(parse_partition_longs(f"{edge}Offsets", text, OFFSETS_EXAMPLE))
    return default


def _isolation_level(given: Given) -> IsolationLevel:
    value = given.get("kafka.isolation.level")
    level = "read_uncommitted" if value is None else value.strip()  # Kafka's own parser: trimmed, not folded
    if level not in ("read_uncommitted", "read_committed"):
        raise OptionError(
            f"kafka.isolation.level: expected read_committed or read_uncommitted, got {value!r}"
        )
    return cast("IsolationLevel", level)


def _view(given: Given) -> View:
    view: View = given.word("view", "records", "latest", "batches", "segments", "partitions", "transactions")
    if view == "latest":
        for name in ("minPartitions", "maxRecordsPerPartition"):
            if given.get(name) is not None:
                raise OptionError(f"view=latest takes each partition in one task: leave {name} out")
        if (given.get("mode") or "").lower() == "permissive":
            raise OptionError(
                "mode: view=latest has no rows for damaged bytes; expected failFast or dropMalformed"
            )
    return view


def _check_trigger_limits(given: Given) -> None:
    """All that a batch read looks at in the options of triggers."""
    if given.get("minOffsetsPerTrigger") is None or given.get("maxOffsetsPerTrigger") is None:
        return
    least, most = given.long("minOffsetsPerTrigger"), given.long("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger {least} is greater than maxOffsetsPerTrigger {most}")
