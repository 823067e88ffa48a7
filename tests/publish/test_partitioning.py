"""Where records go."""

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


def dealt(
    partitioner: Partitioner, keys: list[bytes | None] | None, chosen: Any, rows: int
) -> dict[int, list[int]]:
    """Numbers of the rows by partition."""
    columns = {"value": pa.array([str(i) for i in range(rows)])}
    if keys is not None:
        columns["key"] = pa.array(keys, pa.binary())
    found: dict[int, list[int]] = defaultdict(list)
    choice = None if chosen is None else pa.array(chosen, pa.int32())
    for partition, (records, numbers) in partitioner.split(pa.record_batch(columns), choice):
        part = records if numbers is None else records.take(numbers)
        found[partition] += [int(value) for value in part.column("value").to_pylist()]
    return found


def partitioner(partitions: int, batch_size: int = 100, **how: bool) -> Partitioner:
    return Partitioner("t", partitions, batch_size, **{"ignore_keys": False, "round_robin": False, **how})


@given(KEYS, st.integers(1, 5), st.booleans(), st.data())
def test_the_rules(keys: list[bytes | None], partitions: int, with_choice: bool, data: st.DataObject) -> None:
    one = st.none() | st.integers(0, partitions - 1)
    chosen = data.draw(st.lists(one, min_size=len(keys), max_size=len(keys))) if with_choice else None
    found = dealt(partitioner(partitions), keys, chosen, len(keys))
    assert sorted(row for rows in found.values() for row in rows) == list(range(len(keys)))
    by_key = partition_of_keys(pa.array(keys, pa.binary()), partitions).to_pylist()
    for partition, rows in found.items():
        assert 0 <= partition < partitions
        for row in rows:
            wanted = chosen[row] if chosen is not None and chosen[row] is not None else by_key[row]
            assert wanted in (None, partition)
        for some in (True, False):  # those with a key, and those without, stay in order
            same = [row for row in rows if (by_key[row] is None) is some]
            assert same == sorted(same) or chosen is not None


@pytest.mark.parametrize(("rows", "parts"), [(1000, 1), (5, 200)])
def test_records_without_a_key_change_partition_with_each_batch(rows: int, parts: int) -> None:
    one = partitioner(4, batch_size=50)
    sizes: Counter[int] = Counter()
    for _ in range(parts):
        sizes.update({partition: len(found) for partition, found in dealt(one, None, None, rows).items()})
    assert len(sizes) == 4
    assert max(sizes.values()) - min(sizes.values()) <= 20


def test_few_records_stay_together() -> None:
    one = partitioner(4, batch_size=1000)
    assert len({partition for _ in range(10) for partition in dealt(one, None, None, 5)}) == 1


def test_round_robin() -> None:
    found = dealt(partitioner(3, round_robin=True), [b"same"] * 99, None, 99)
    assert {len(rows) for rows in found.values()} == {33}
    one = partitioner(3, round_robin=True)
    turns = [partition for _ in range(6) for partition in dealt(one, None, None, 1)]
    assert turns[:3] == turns[3:] and len(set(turns)) == 3


def test_keys_are_ignored_if_they_are_to_be() -> None:
    found = dealt(partitioner(4, batch_size=50, ignore_keys=True), [b"same"] * 1000, None, 1000)
    assert len(Counter(found)) == 4


@pytest.mark.parametrize(
    ("wrong", "message"), [(-1, "Invalid partition: -1"), (4, "found 4 in column partition")]
)
def test_partitions_that_are_not_there(wrong: int, message: str) -> None:
    with pytest.raises(InvalidRecordError, match=message):
        dealt(partitioner(4), None, [0, wrong], 2)
