"""decode_file: the result of decode for the same bytes, wherever the chunks of the file end."""

from __future__ import annotations

import random
import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.batches import Rec, v2
from tests.builders.strategies import logs, mutations
from tests.effort import examples

from .conftest import KERNEL, needs_kernel
from .rows import offsets
from .test_properties import joined, outcome, quick

COLUMNS = ["offset", "key", "value", "position"]


def assert_same(impl: Any, data: bytes, position: int = 0, end: int | None = None, **how: Any) -> Any:
    """Check that decode_file returns the result of decode for the bytes from `position` to `end`."""
    end = len(data) if end is None else end
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        decoded = impl.decode_file(file.fileno(), position, end, COLUMNS, **how)
    expected = impl.decode(data[position:end], COLUMNS, base_position=position, **how)
    assert outcome(decoded) == outcome(expected), (decoded.damage, expected.damage)
    assert decoded.batch.equals(expected.batch)
    return decoded


def long_log() -> tuple[bytes, list[int]]:
    """2 MiB of batches of a few bytes up to 700 KiB, and where they begin."""
    sizes = random.Random(3)
    data, begins, offset = b"", [], 0
    while len(data) < 2 << 20:
        begins.append(len(data))
        value = sizes.randbytes(sizes.choice([3, 200, 20_000]))
        records = sizes.choice([1, 2, 35])
        codec = sizes.choice(["none", "none", "none", "lz4", "snappy"])
        data += v2([Rec(offset_delta=i, value=value) for i in range(records)], offset, codec)
        offset += records
    return data, begins


LONG, BEGINS = long_log()


@needs_kernel
def test_a_file_of_many_chunks() -> None:
    assert_same(KERNEL, LONG)
    assert_same(KERNEL, LONG, check_crcs=False)
    assert_same(KERNEL, LONG, BEGINS[3], BEGINS[-2])
    count = KERNEL.scan(LONG).batches.num_rows
    assert count == len(BEGINS)
    for end in (len(LONG) - 1, BEGINS[-1] + 5, BEGINS[-1] + 17, BEGINS[-1] + 61, (256 << 10) + 1):
        assert_same(KERNEL, LONG, end=end)
    for zeros in (3, 100, 300 << 10, 2 << 20):
        assert_same(KERNEL, LONG + bytes(zeros))
        assert_same(KERNEL, LONG + bytes(zeros) + b"x")


@needs_kernel
@pytest.mark.parametrize(
    "limit", [{"max_rows": 1}, {"max_rows": 500}, {"max_bytes": 10}, {"max_bytes": 1 << 20}]
)
def test_limits_end_a_call_and_the_next_continues(limit: dict[str, int]) -> None:
    position, rows = 0, []
    while True:
        decoded = assert_same(KERNEL, LONG, position, **limit)
        rows += offsets(decoded.batch)
        if decoded.status != "limit":
            break
        position = decoded.position
    assert rows == offsets(KERNEL.decode(LONG, ["offset"]).batch)


@needs_kernel
def test_ranges_and_damage_in_any_chunk() -> None:
    last = offsets(KERNEL.decode(LONG, ["offset"]).batch)[-1]
    for start, end in (
        (None, 5),
        (last // 2, None),
        (last // 3, last // 2),
        (last - 1, None),
        (last + 1, None),
    ):
        assert_same(KERNEL, LONG, start_offset=start, end_offset=end)
    for begin in (BEGINS[1], BEGINS[len(BEGINS) // 2], BEGINS[-1]):
        for at in (begin + 9, begin + 16, begin + 22, begin + 65):
            damaged = bytearray(LONG)
            damaged[at] ^= 0x40
            assert_same(KERNEL, bytes(damaged))
            assert_same(KERNEL, bytes(damaged), check_crcs=False, max_batch_bytes=100_000)


@settings(quick, max_examples=examples(50))
@given(
    data=st.one_of(logs(4).map(joined), logs(4).map(joined).flatmap(mutations)),
    rows=st.one_of(st.none(), st.integers(1, 5)),
    torn=st.integers(0, 90),
)
def test_any_bytes(impl, data: bytes, rows: int | None, torn: int) -> None:
    assert_same(impl, data, end=max(0, len(data) - torn), max_rows=rows, max_batch_bytes=5000)


def test_a_file_that_ends_before_its_end(impl) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(LONG[: BEGINS[2]])
        file.flush()
        with pytest.raises(EOFError):
            impl.decode_file(file.fileno(), 0, len(LONG), COLUMNS)
    with pytest.raises(OSError, match="Bad file descriptor"):
        impl.decode_file(-1, 0, 100, COLUMNS)
