"""The partitions that records are assigned to."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.errors import InvalidRecordError
from native_log.publish.partitioning import Partitioner
from native_log.records import partition_of_keys

KEYS = st.lists(st.none() | st.binary(max_size=6), max_size=60)


def split(
    partitioner: Partitioner, keys: list[bytes | None] | None, explicit: Any, rows: int
) -> dict[int, list[int]]:
    """Return the row numbers of each partition."""
    columns = {"value": pa.array([str(i) for i in range(rows)])}
    if keys is not None:
        columns["key"] = pa.array(keys, pa.binary())
    rows_by_partition: dict[int, list[int]] = defaultdict(list)
    partitions = None if explicit is None else pa.array(explicit, pa.int32())
    for partition, (records, indices) in partitioner.split(pa.record_batch(columns), partitions):
        part = records if indices is None else records.take(indices)
        rows_by_partition[partition] += [int(value) for value in part.column("value").to_pylist()]
    return rows_by_partition


def partitioner(partitions: int, batch_size: int = 100, **options: bool) -> Partitioner:
    return Partitioner("t", partitions, batch_size, **{"ignore_keys": False, "round_robin": False, **options})


@given(KEYS, st.integers(1, 5), st.booleans(), st.data())
def test_explicit_partitions_then_keys_decide(
    keys: list[bytes | None], partitions: int, has_explicit: bool, data: st.DataObject
) -> None:
    choices = st.lists(st.none() | st.integers(0, partitions - 1), min_size=len(keys), max_size=len(keys))
    explicit = data.draw(choices) if has_explicit else None
    result = split(partitioner(partitions), keys, explicit, len(keys))
    assert sorted(row for rows in result.values() for row in rows) == list(range(len(keys)))
    by_key = partition_of_keys(pa.array(keys, pa.binary()), partitions).to_pylist()
    for partition, rows in result.items():
        assert 0 <= partition < partitions
        for row in rows:
            has_partition = explicit is not None and explicit[row] is not None
            expected = explicit[row] if has_partition else by_key[row]
            assert expected in (None, partition)
        for unkeyed in (True, False):  # records with keys stay in order, and so do those without
            same = [row for row in rows if (by_key[row] is None) is unkeyed]
            assert same == sorted(same) or explicit is not None


@pytest.mark.parametrize(("rows", "parts"), [(1000, 1), (5, 200)])
def test_records_without_a_key_change_partition_with_each_batch(rows: int, parts: int) -> None:
    shared = partitioner(4, batch_size=50)
    sizes: Counter[int] = Counter()
    for _ in range(parts):
        sizes.update({partition: len(part) for partition, part in split(shared, None, None, rows).items()})
    assert len(sizes) == 4
    assert max(sizes.values()) - min(sizes.values()) <= 20


@given(st.lists(st.integers(0, 300), max_size=10), st.integers(1, 4), st.integers(1, 500))
def test_each_record_without_a_key_gets_one_partition(
    sizes: list[int], partitions: int, batch_size: int
) -> None:
    splitter = partitioner(partitions, batch_size)
    for rows in sizes:
        result = split(splitter, None, None, rows)
        assert sorted(row for part in result.values() for row in part) == list(range(rows))


def test_few_records_without_a_key_go_to_one_partition() -> None:
    shared = partitioner(4, batch_size=1000)
    assert len({partition for _ in range(10) for partition in split(shared, None, None, 5)}) == 1


def test_round_robin() -> None:
    result = split(partitioner(3, round_robin=True), [b"same"] * 99, None, 99)
    assert {len(rows) for rows in result.values()} == {33}
    shared = partitioner(3, round_robin=True)
    turns = [partition for _ in range(6) for partition in split(shared, None, None, 1)]
    assert turns[:3] == turns[3:] and len(set(turns)) == 3


def test_ignore_keys() -> None:
    result = split(partitioner(4, batch_size=50, ignore_keys=True), [b"same"] * 1000, None, 1000)
    assert len(Counter(result)) == 4


@pytest.mark.parametrize(
    ("invalid", "message"), [(-1, "Invalid partition: -1"), (4, "found 4 in column partition")]
)
def test_invalid_partitions_are_rejected(invalid: int, message: str) -> None:
    with pytest.raises(InvalidRecordError, match=message):
        split(partitioner(4), None, [0, invalid], 2)
