"""The law of filters: a filtered read has the filtered rows of a read, on everything that brokers wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from native_log.errors import CorruptRecordError, KafkaLogError
from native_log.filters import to_filter
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA
from tests.builders.golden import PARTITIONS, golden_id, open_golden

if TYPE_CHECKING:
    from native_log.filters import RecordFilter
    from native_log.log import LogRange, PartitionLog
    from tests.builders.golden import GoldenPartition

COLUMNS = ["value", "offset"]


def table(source: LogRange, columns: list[str], **options: Any) -> pa.Table:
    batches = list(source.read(columns, **options))
    schema = pa.schema(
        [
            pa.field(CORRUPT_RECORD, pa.string()) if n == CORRUPT_RECORD else RECORD_SCHEMA.field(n)
            for n in columns
        ]
    )
    return pa.Table.from_batches(batches, schema)


def filters(rows: pa.Table) -> list[pc.Expression]:
    """Some that select about half of these rows, one, and none."""
    field = pc.field
    if not rows.num_rows:
        return [field("offset") > 3, field("key").is_null()]
    middle = rows.slice(rows.num_rows // 2, 1).to_pylist()[0]
    offset, key = pa.scalar(middle["offset"], pa.int64()), pa.scalar(middle["key"], pa.binary())
    time = pa.scalar(middle["timestamp"], pa.timestamp("us", "UTC"))
    has_key = field("key").is_null() if middle["key"] is None else field("key") == key
    return [
        field("offset") >= offset,
        (field("offset") < offset) & (field("timestamp") <= time),
        field("timestamp") >= time,
        field("timestamp") < time,
        has_key,
        ~has_key,
        has_key & (field("timestamp") == time),
        has_key | (field("offset") == offset),
        (field("producerId") == pa.scalar(middle["producerId"], pa.int64())) & field("isTransactional"),
        field("compression") == middle["compression"],
        pc.binary_length(field("value")) > 20,
        field("topic") == "no such topic",
    ]


ALL = [*RECORD_SCHEMA.names]


CASES = [
    pytest.param(partition, level, id=f"{golden_id(partition)}-{level}")
    for partition in PARTITIONS
    for level in ("read_uncommitted", "read_committed")
    if level == "read_uncommitted" or partition.expected["rowsCommitted"] is not None
]
"""Without transactions, both levels are the same."""


@pytest.mark.parametrize(("partition", "isolation_level"), CASES)
def test_law(partition: GoldenPartition, isolation_level: Any) -> None:
    try:
        source = open_golden(partition).range(isolation_level=isolation_level)
    except KafkaLogError:
        pytest.skip("this directory cannot be opened")
    everything = table(source, ALL, mode="dropMalformed")
    for expression in filters(everything):
        expected = everything.filter(expression).select(COLUMNS)
        selection = to_filter(expression)
        assert table(source, COLUMNS, mode="dropMalformed", filter=selection).equals(expected), expression
        assert rows_of_parts(source, selection).equals(expected), expression


def rows_of_parts(source: LogRange, filter: RecordFilter) -> pa.Table:
    """The same rows, read in parts, with small batches."""
    parts = source.split(max(1, source.size_bytes // 3))
    found = [
        table(part, COLUMNS, mode="dropMalformed", filter=filter, max_rows=7, first_rows=1) for part in parts
    ]
    return pa.concat_tables(found) if found else table(source, COLUMNS, filter=filter)


DAMAGED = [partition for partition in PARTITIONS if "corrupt" in partition.fixture]


@pytest.mark.parametrize("partition", DAMAGED, ids=golden_id)
def test_law_with_rows_of_damage(partition: GoldenPartition) -> None:
    source = open_golden(partition).range()
    names = [*ALL, CORRUPT_RECORD]
    everything = table(source, names, mode="permissive")
    for expression in [*filters(everything), pc.field(CORRUPT_RECORD).is_valid()]:
        expected = everything.filter(expression).select([*COLUMNS, CORRUPT_RECORD])
        found = table(source, [*COLUMNS, CORRUPT_RECORD], mode="permissive", filter=expression)
        assert found.equals(expected), expression


def test_no_columns() -> None:
    source = open_golden(PARTITIONS[0]).range()
    rows = table(source, ["offset"], filter="offset > 1").num_rows
    assert rows > 0
    assert sum(batch.num_rows for batch in source.read([], filter="offset > 1")) == rows


def test_latest_records_are_filtered_afterwards() -> None:
    """A filter must not make an older record of a key the newest one."""
    source = next(
        source
        for source in (
            open_golden(partition).range() for partition in PARTITIONS if "compact" in partition.fixture
        )
        if pa.Table.from_batches(source.latest(["key"])).num_rows > 2
    )
    latest = pa.Table.from_batches(source.latest(["key", "offset"]))
    cut = latest.column("offset")[latest.num_rows // 2].as_py()
    expression = pc.field("offset") < cut
    found = pa.Table.from_batches(source.latest(["key", "offset"], filter=expression), latest.schema)
    assert found.equals(latest.filter(expression))


def test_damage_that_a_filter_skips_is_no_error() -> None:
    partition = next(each for each in DAMAGED if _is_damaged(open_golden(each)))
    source = open_golden(partition).range()
    with pytest.raises(CorruptRecordError):
        table(source, COLUMNS)
    assert table(source, COLUMNS, filter="topic = 'no such topic'").num_rows == 0


def _is_damaged(log: PartitionLog) -> bool:
    try:
        table(log.range(), ["offset"])
    except CorruptRecordError:
        return True
    return False


def test_forms_of_a_filter() -> None:
    log = open_golden(
        next(each for each in PARTITIONS if len(each.rows()) > 10 and "compact" not in each.fixture)
    )
    cut = log.local_log_start_offset + 3
    assert log.read(filter=f"offset < {cut}").read_all().num_rows == 3
    assert log.scan(filter=pc.field("offset") < cut).to_table().num_rows == 3
    with pytest.raises(ValueError, match="nokey"):
        log.read(filter="nokey = 1")


@pytest.mark.parametrize(("partition", "isolation_level"), CASES)
def test_counts(partition: GoldenPartition, isolation_level: Any) -> None:
    """They are the numbers of rows, but for batches with a wrong checksum, which headers do not show."""
    try:
        log = open_golden(partition)
        source = log.range(isolation_level=isolation_level)
    except KafkaLogError:
        pytest.skip("this directory cannot be opened")
    rows = table(source, ["offset"], mode="dropMalformed")
    if partition in DAMAGED and _is_damaged(log):
        return
    middle = rows["offset"][rows.num_rows // 2].as_py() if rows.num_rows else 0
    for expression in [
        None,
        pc.field("offset") < middle,
        pc.field("offset") >= middle,
        pc.field("key").is_null(),
    ]:
        scan = log.scan(None, None, ["offset"], isolation_level, mode="dropMalformed", filter=expression)
        assert scan.count_rows() == scan.to_table().num_rows


def test_damage_filter_of_text() -> None:
    assert to_filter("_corrupt_record IS NOT NULL").columns == (CORRUPT_RECORD,)
