"""Kafka's default partitioner."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from .conftest import KERNEL, REFERENCE, needs_kernel

KNOWN = {
    b"21": (-973932308, 0),
    b"foobar": (-790332482, 6),
    b"a-little-bit-long-string": (-985981536, 2),
    b"a-little-bit-longer-string": (-1486304829, 9),
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": (-58897971, 7),
    b"abc": (479470107, 7),
    b"": (275646681, 1),
    b"a": (-1563381124, 4),
    b"ab": (316155434, 4),
    b"abcd": (-1323649548, 0),
    b"key": (-1079937367, 1),
}
"""Keys, their hashes (the first six are those of Kafka's own tests) and their partitions of 10."""


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.string_view()])
def test_known_hashes(impl, kind: pa.DataType) -> None:
    keys = pa.array([None, *KNOWN, None], pa.binary()).cast(kind)
    hashes, partitions = impl.murmur2(keys), impl.partition_of_keys(keys, 10)
    assert hashes.equals(pa.array([None, *(known for known, _ in KNOWN.values()), None], pa.int32()))
    assert partitions.equals(pa.array([None, *(known for _, known in KNOWN.values()), None], pa.int32()))
    assert impl.murmur2(keys.slice(1, 3)).equals(hashes.slice(1, 3))
    assert impl.murmur2(pa.array([b"\xff", b"\0\0\0\0"])).to_pylist() == [-311467685, 850957120]
    assert impl.murmur2(pa.nulls(2)).equals(pa.nulls(2, pa.int32()))
    assert impl.partition_of_keys(pa.array([], kind), 1).equals(pa.array([], pa.int32()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(1, 9), st.data())
def test_rows_keep_their_order_in_each_partition(impl, count: int, data: st.DataObject) -> None:
    partitions = data.draw(st.lists(st.integers(0, count - 1)))
    given_rows = pa.array([0, *partitions], pa.int32()).slice(1)
    by_partition = impl.rows_by_partition(given_rows, count)
    assert [partition for partition, _ in by_partition] == sorted(set(partitions))
    for partition, rows in by_partition:
        assert rows.equals(pa.array([i for i, own in enumerate(partitions) if own == partition], pa.uint32()))


@pytest.mark.parametrize("wrong", [[0, 3], [-1], [None]])
def test_invalid_partitions(impl, wrong: list[int | None]) -> None:
    with pytest.raises(ValueError, match="partition"):
        impl.rows_by_partition(pa.array(wrong, pa.int32()), 3)


@needs_kernel
@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 2**31 - 1))
def test_the_kernel_hashes_as_the_reference_and_a_peer(given_keys, partitions: int) -> None:
    keys = pa.array(given_keys, pa.binary())
    assert KERNEL.murmur2(keys).equals(REFERENCE.murmur2(keys))
    chosen = KERNEL.partition_of_keys(keys, partitions)
    assert chosen.equals(REFERENCE.partition_of_keys(keys, partitions))
    assert chosen.to_pylist() == [
        None if key is None else (kafka_python_murmur2(key) & 0x7FFFFFFF) % partitions for key in given_keys
    ]


def test_invalid_keys_and_partition_counts(impl) -> None:
    with pytest.raises(ValueError, match=r"column key: .*int64"):
        impl.murmur2(pa.array([1]))
    for partitions in (0, -1, 2**31):
        with pytest.raises(ValueError, match=f"expected from 1 to 2147483647 partitions, found {partitions}"):
            impl.partition_of_keys(pa.array([b"k"]), partitions)
