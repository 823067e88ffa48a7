"""Parsing and validation of the read options."""

import json
import re

import pytest

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.names import READ_OPTIONS, correct_spelling
from kafkalog_spark.options.read import UNSUPPORTED, ReadOptions, parse_read_options
from kafkalog_spark.options.topics import AllTopics, Assign, Subscribe, SubscribePattern
from kafkalog_spark.read.offsets import Earliest, GlobalTimestamp, Latest, SpecificOffsets, SpecificTimestamps
from native_log.storage import StorageOptions


def parse(**options: str) -> ReadOptions:
    return parse_read_options({"path": "/logs", **options})


def parse_dotted(name: str, value: str) -> ReadOptions:
    return parse_read_options({"path": "/logs", name: value})


def test_defaults() -> None:
    assert parse() == ReadOptions(
        paths=("/logs",),
        selection=AllTopics(),
        start=Earliest(),
        end=Latest(),
        strategy="error",
        min_partitions=None,
        max_records_per_partition=None,
        max_bytes_per_partition=128 * 1024 * 1024,
        fail_on_data_loss=True,
        include_headers=False,
        isolation_level="read_uncommitted",
        check_crcs=True,
        mode="failFast",
        columns=None,
        view="records",
        history=False,
        as_of_offset=None,
        offsets_retention_minutes=10_080,
        include_internal=False,
        include_deleted=False,
        high_watermark="auto",
        max_batch_bytes=256 * 1024 * 1024,
        replicas="longest",
        remote={},
        storage_options=StorageOptions(),
        where=None,
        key_partitions=None,
        push_filters=False,
        map_function=None,
    )


def test_the_case_of_names_does_not_matter() -> None:
    options = {
        "PATH": "/logs",
        "SUBSCRIBE": "t",
        "KAFKA.Isolation.Level": "read_committed",
        "MaxBytesPerPartition": "1k",
    }
    parsed = parse_read_options(options)
    assert parsed.selection == Subscribe(frozenset({"t"}))
    assert parsed.isolation_level == "read_committed"
    assert parsed.max_bytes_per_partition == 1024


@pytest.mark.parametrize(
    "name",
    ["foo", "header", "provider", "owner", "kafka.security.protocol", "kafka.", "serialization.format"],
)
def test_unknown_options_are_ignored(name: str) -> None:
    assert parse_dotted(name, "x") == parse()


def test_options_that_a_catalog_adds_are_ignored() -> None:
    catalog = {
        "provider": "kafkalog",
        "owner": "me",
        "location": "file:/other",
        "option.subscribe": "t",
        "option.pth": "",
    }
    assert parse(**catalog) == parse()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.bootstrap.servers", ""),
        ("kafkaConsumer.pollTimeoutMs", "x"),
        ("fetchOffset.numRetries", "-1"),
        ("fetchOffset.retryIntervalMs", ""),
        ("groupIdPrefix", "p"),
        ("kafka.group.id", "g"),
        ("maxTriggerDelay", "x"),
        ("maxOffsetsPerTrigger", "x"),
        ("minOffsetsPerTrigger", ""),
    ],
)
def test_options_without_a_meaning_here_are_ignored_with_any_value(name: str, value: str) -> None:
    assert parse_dotted(name, value) == parse()


@pytest.mark.parametrize(
    ("misspelling", "correct"),
    [
        ("startingOffset", "startingOffsets"),
        ("startngOffsets", "startingOffsets"),
        ("subcribe", "subscribe"),
        ("suscrieb", "subscribe"),
        ("includeHeader", "includeHeaders"),
        ("moed", "mode"),
        ("mod", "mode"),
        ("mdoel", None),
        ("maxBytesPerPartitions", "maxBytesPerPartition"),
        ("kafka.isolation.levle", "kafka.isolation.level"),
        ("failOnDateLos", "failOnDataLoss"),
        ("pathes", "paths"),
        ("date", None),
        ("auto.offset.reset", None),
        ("column", "columns"),
        ("minPartition", "minPartitions"),
        ("inculdeInternal", "includeInternal"),
    ],
)
def test_misspellings(misspelling: str, correct: str | None) -> None:
    assert correct_spelling(misspelling.lower()) == correct
    if correct is not None:
        message = f"unknown option '{misspelling.lower()}': did you mean {correct}?"
        with pytest.raises(OptionError, match=re.escape(message)):
            parse(**{misspelling: "x"})


def test_no_option_is_a_misspelling_of_another() -> None:
    assert all(correct_spelling(name) is None for name in READ_OPTIONS)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_client_settings_that_would_change_what_is_read_are_rejected(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} is not supported"):
        parse_dotted(name, "x")


def test_paths() -> None:
    assert parse_read_options({"paths": json.dumps(["/a", "/b"])}).paths == ("/a", "/b")
    assert parse_read_options({"location": "file:/warehouse/t"}).paths == ("file:/warehouse/t",)
    assert parse_read_options({"path": "/a", "location": "/b"}).paths == ("/a",)


@pytest.mark.parametrize("options", [{}, {"path": " "}, {"paths": "[]"}, {"subscribe": "t"}])
def test_a_path_is_required(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=re.escape("no path is given; expected a Kafka log directory")):
        parse_read_options(options)


@pytest.mark.parametrize("paths", ["/a", '{"a": 1}', "[1]"])
def test_invalid_paths(paths: str) -> None:
    with pytest.raises(OptionError, match="paths: expected a JSON list"):
        parse_read_options({"paths": paths})


def test_selection() -> None:
    assert parse(subscribe=" a, b ,,a").selection == Subscribe(frozenset({"a", "b"}))
    assert parse(assign=' {"t":[0,1]}').selection == Assign(frozenset({("t", 0), ("t", 1)}))
    selection = parse(subscribePattern=" ord.* ").selection
    assert isinstance(selection, SubscribePattern)
    assert selection.pattern.search("my_orders")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"subscribe": "t", "assign": "bad"},
            "expected only one of subscribe, subscribePattern, assign, found subscribe, assign",
        ),
        ({"subscribe": "", "subscribePattern": "x"}, "expected only one of"),
        ({"subscribe": " , "}, "subscribe: expected a list of topics"),
        ({"subscribePattern": " "}, "subscribePattern: expected a regular expression"),
        ({"subscribePattern": "*"}, "subscribePattern: cannot use the regular expression"),
        ({"assign": "plain"}, 'assign: expected partitions such as {"topicA"'),
        ({"assign": '{"t":"0"}'}, "assign: expected e.g."),
        ({"topics": "t"}, "did you mean subscribe"),
    ],
)
def test_invalid_selections(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse(**options)


def test_an_overridden_limit_is_not_parsed() -> None:
    every = {"startingTimestamp": " 7 ", "startingOffsetsByTimestamp": "bad", "startingOffsets": "bad"}
    assert parse(**every).start == GlobalTimestamp(7)
    del every["startingTimestamp"]
    every["startingOffsetsByTimestamp"] = '{"t":{"0":5}}'
    assert parse(**every).start == SpecificTimestamps({("t", 0): 5})
    assert parse(endingTimestamp="7", endingOffsets="earliest").end == GlobalTimestamp(7)


def test_offsets() -> None:
    assert parse(startingOffsets=" EARLIEST ").start == Earliest()
    assert parse(endingOffsets="Latest").end == Latest()
    assert parse(endingOffsets='{"t":{"0":-1}}').end == SpecificOffsets({("t", 0): -1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest", "endingOffsets": "latest"}, "cannot start at latest"),
        ({"startingOffsets": "latest", "view": "batches"}, "cannot start at latest"),
        ({"endingOffsets": "earliest"}, "cannot end at earliest"),
        ({"startingOffsets": '{"t":{"0":-1}}', "endingTimestamp": "7"}, "t-0 cannot be latest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "t-0 cannot be earliest"),
        (
            {"startingOffsets": '{"t":{"0":-3}}'},
            "t-0: expected an offset of at least 0, -1 (latest) or -2 (earliest), found -3",
        ),
        (
            {"endingOffsets": '{"t":{"0":-3}}'},
            "t-0: expected an offset of at least 0, -1 (latest) or -2 (earliest), found -3",
        ),
        ({"startingOffsets": ""}, 'startingOffsets: expected e.g. {"topicA":{"0":23'),
        ({"startingTimestamp": ""}, "startingTimestamp: expected an integer of 64 bits"),
        ({"endingTimestamp": "1.5"}, "endingTimestamp: expected an integer of 64 bits"),
        ({"startingOffsetsByTimestamp": "earliest"}, 'expected e.g. {"topicA":{"0":1700000000000'),
        (
            {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"1":2}}'},
            "MISMATCHED_TOPIC_PARTITIONS",
        ),
        ({"startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":2}}'}, "offset 3 is greater than"),
        (
            {"startingTimestamp": "3", "endingTimestamp": "2"},
            "startingTimestamp 3 is greater than endingTimestamp 2",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":3}}', "endingOffsetsByTimestamp": '{"t":{"0":2}}'},
            "timestamp 3 is greater than",
        ),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "expected error or latest"),
        ({"startingOffsetsByTimestampStrategy": " latest "}, "expected error or latest"),
        (
            {"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"},
            "minOffsetsPerTrigger 2 is greater than",
        ),
        (
            {"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "x"},
            "maxOffsetsPerTrigger: expected an integer of 64 bits, found 'x'",
        ),
    ],
)
def test_invalid_limits(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse(**options)


@pytest.mark.parametrize("name", ["minPartitions", "maxRecordsPerPartition"])
def test_positive_numbers(name: str) -> None:
    assert (parse(**{name: "+7"}).min_partitions or parse(**{name: "+7"}).max_records_per_partition) == 7
    for text in ("x", "", " 5 ", "5.0", "1e3", "99999999999999999999"):
        with pytest.raises(OptionError, match=f"{name}: expected an integer of"):
            parse(**{name: text})
    for text in ("0", "-1"):
        with pytest.raises(OptionError, match=f"{name}: expected a number of at least 1"):
            parse(**{name: text})


@pytest.mark.parametrize("name", ["includeHeaders", "failOnDataLoss", "includeInternal", "includeDeleted"])
def test_booleans(name: str) -> None:
    assert parse(**{name: "TRUE"}) != parse(**{name: "False"})
    for text in ("yes", "0", "", " true ", "t"):
        with pytest.raises(OptionError, match=f"{name}: expected true or false"):
            parse(**{name: text})


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("512k", 512 << 10), ("128m", 128 << 20), ("2GB", 2 << 30), ("3 MiB", 3 << 20), ("7b", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse(maxBytesPerPartition=text).max_bytes_per_partition == size


@pytest.mark.parametrize("text", ["", "m", "0", "-1", "1.5m", "12x", "1 e3", "128mm"])
def test_invalid_sizes(text: str) -> None:
    with pytest.raises(OptionError, match="maxBytesPerPartition: expected a size such as"):
        parse(maxBytesPerPartition=text)


def test_isolation_level_is_trimmed_but_its_case_matters() -> None:
    """Kafka's ConfigDef parses it this way."""
    assert parse_dotted("kafka.isolation.level", " read_committed ").isolation_level == "read_committed"
    for text in ("READ_COMMITTED", "", "none"):
        with pytest.raises(
            OptionError, match=r"kafka\.isolation\.level: expected read_committed or read_uncommitted"
        ):
            parse_dotted("kafka.isolation.level", text)


def test_choices() -> None:
    assert parse(mode="PERMISSIVE").mode == "permissive"
    assert parse(view="Batches").view == "batches"
    assert parse(highWatermark="checkpoint").high_watermark == "checkpoint"
    with pytest.raises(
        OptionError, match="mode: expected failFast, dropMalformed or permissive, found 'fast'"
    ):
        parse(mode="fast")
    assert parse(view="latest").view == "latest"
    with pytest.raises(OptionError, match="view=latest reads each partition in one task; remove minPart"):
        parse(view="latest", minPartitions="2")
    with pytest.raises(OptionError, match=r"mode: .* found permissive; view=latest has no rows for damaged"):
        parse(view="latest", mode="permissive")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "lag", "subscribe": "orders"}, "view=lag reads the topic __consumer_offsets; remove subsc"),
        ({"view": "lag", "mode": "permissive"}, "view=lag has no rows for damaged batches"),
        (
            {"view": "lag", "history": "true"},
            "expected view=consumer_offsets or transaction_state, found view=lag",
        ),
        ({"view": "lag", "asOfOffset": "5"}, "asOfOffset: expected view=cluster_metadata, found view=lag"),
        ({"view": "lag", "endingTimestamp": "5", "startingOffsets": "latest"}, "cannot start at latest"),
    ],
)
def test_views_of_internal_topics_reject(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(**options)


def test_columns() -> None:
    assert parse(columns=" offset,value ").columns == ("offset", "value")
    with pytest.raises(OptionError, match="columns: expected a list"):
        parse(columns="offset,,value")
