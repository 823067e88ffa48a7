"""Which records a call of decode yields, and where it stops."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.batches import COMMIT, CONTROL, TRANSACTIONAL, Rec, marker, v2
from tests.builders.legacy import message, wrapper
from tests.effort import examples

from .conftest import KERNEL, REFERENCE, needs_kernel
from .rows import offsets

LOG = (
    v2([Rec()] * 3, 0)
    + v2([Rec()] * 3, 3, "snappy")
    + message(1, 6)
    + wrapper(0, [message(0, i) for i in (7, 9)], 9, "lz4")
    + v2([Rec(offset_delta=1)], 10, last_offset_delta=4)
)
ALL_OFFSETS = [0, 1, 2, 3, 4, 5, 6, 7, 9, 11]


@pytest.mark.parametrize("start", [None, *range(-1, 17)])
@pytest.mark.parametrize("end", [None, *range(-1, 17)])
def test_ranges(impl, start: int | None, end: int | None) -> None:
    decoded = impl.decode(LOG, ["offset"], start_offset=start, end_offset=end)
    expected = [o for o in ALL_OFFSETS if (start is None or o >= start) and (end is None or o < end)]
    assert offsets(decoded.batch) == expected
    assert (decoded.status, decoded.position, decoded.next_offset) == ("end", len(LOG), 15)


def test_offsets_need_not_rise(impl) -> None:
    log = v2([Rec()], 50) + v2([Rec()], 3) + v2([Rec()], 60) + v2([Rec()], 4)
    assert offsets(impl.decode(log, ["offset"], end_offset=10).batch) == [3, 4]


def txn(offset: int, producer_id: int, records: int = 2, **fields: int) -> bytes:
    return v2([Rec()] * records, offset, producer_id=producer_id, **({"attributes": TRANSACTIONAL} | fields))


def aborted(*triples: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack("=qqq", *triple) for triple in triples)


def test_aborted(impl) -> None:
    log = (
        txn(0, 7)
        + txn(2, 8)
        + txn(4, 7)
        + marker(6, 7, 0)
        + txn(7, 7)
        + v2([Rec()], 9, producer_id=7)
        + marker(10, 7, COMMIT)
        + marker(11, 8, 0)
    )
    assert offsets(impl.decode(log, ["offset"]).batch) == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert offsets(impl.decode(log, ["offset"], aborted=aborted((7, 0, 6))).batch) == [2, 3, 7, 8, 9]
    both = aborted((7, 0, 6), (8, 2, 11))
    assert offsets(impl.decode(log, ["offset"], aborted=both).batch) == [7, 8, 9]
    assert offsets(impl.decode(log, ["offset"], aborted=aborted((7, 4, 6))).batch) == [0, 1, 2, 3, 7, 8, 9]
    assert offsets(impl.decode(log, ["offset"], aborted=aborted((6, 0, 99), (9, 0, 99))).batch) == [
        *range(6),
        7,
        8,
        9,
    ]
    # Markers are not data of the transaction; records outside of transactions are not aborted.
    everything = aborted((7, 0, 99), (8, 0, 99))
    assert offsets(impl.decode(log, ["offset"], aborted=everything, control=True).batch) == [6, 9, 10, 11]


def test_aborted_is_about_where_a_batch_begins(impl) -> None:
    assert offsets(impl.decode(txn(5, 7), ["offset"], aborted=aborted((7, 6, 9))).batch) == [5, 6]
    assert offsets(impl.decode(txn(9, 7), ["offset"], aborted=aborted((7, 6, 9))).batch) == []


def test_many_aborted(impl) -> None:
    triples = [(pid, first, first + 1) for pid in range(20) for first in range(0, 4000, 4)]
    log = b"".join(txn(n, n % 20, 1) for n in range(4000))
    expected = [n for n in range(4000) if n % 4 > 1]
    assert offsets(impl.decode(log, ["offset"], aborted=aborted(*triples)).batch) == expected


def test_aborted_that_is_no_sequence_of_triples(impl) -> None:
    with pytest.raises(ValueError, match="24"):
        impl.decode(LOG, ["offset"], aborted=bytes(25))


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview], ids=str)
def test_any_buffer(impl, buffer) -> None:
    assert offsets(impl.decode(buffer(LOG), ["offset"]).batch) == ALL_OFFSETS
    assert impl.scan(buffer(LOG)).batches.num_rows == 5
    assert impl.find_batch(buffer(LOG)) == 0


BATCHES = b"".join(v2([Rec(None, b"x" * 100)] * 5, 5 * i) for i in range(10))


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 6, 10, 11, 49, 50, 51])
def test_max_rows(impl, limit: int) -> None:
    read, at = [], 0
    while True:
        decoded = impl.decode(BATCHES[at:], ["offset"], base_position=at, max_rows=limit)
        got = offsets(decoded.batch)
        read += got
        at = decoded.position
        if decoded.status == "end":
            break
        assert decoded.status == "limit"
        assert max(limit, 1) <= len(got) < max(limit, 1) + 5
        assert decoded.next_offset == read[-1] + 1
    assert read == list(range(50))
    assert at == len(BATCHES)


@pytest.mark.parametrize("limit", [0, 1, 500, 1000, 5000, 100_000])
def test_max_bytes(impl, limit: int) -> None:
    read, at, calls = [], 0, 0
    while True:
        decoded = impl.decode(BATCHES[at:], ["offset", "value"], base_position=at, max_bytes=limit)
        read += offsets(decoded.batch)
        at = decoded.position
        calls += 1
        if decoded.status == "end":
            break
        assert decoded.status == "limit"
        assert decoded.batch.num_rows
        assert decoded.batch.get_total_buffer_size() >= limit
    assert read == list(range(50))
    assert calls == {0: 10, 1: 10, 500: 10, 1000: 5}.get(limit, calls)
    assert calls > 1 or limit == 100_000


def test_limits_count_rows_not_batches(impl) -> None:
    """Reading does not stop at skipped batches, nor at batches without rows."""
    log = v2([], 0) * 3 + marker(1, 7) + v2([Rec()], 2) + v2([Rec()], 3)
    decoded = impl.decode(log, ["offset"], max_rows=1)
    assert (offsets(decoded.batch), decoded.status, decoded.next_offset) == ([2], "limit", 3)


def test_limit_reached_at_the_end_is_the_end(impl) -> None:
    assert impl.decode(BATCHES, ["offset"], max_rows=50).status == "end"


def test_a_limit_takes_precedence_over_what_follows(impl) -> None:
    for next_bytes in (bytes(30), b"\xff" * 30, v2()[:20]):
        decoded = impl.decode(BATCHES + next_bytes, ["offset"], max_rows=50)
        assert (decoded.status, decoded.position, decoded.damage) == ("limit", len(BATCHES), None)


def test_a_torn_control_batch_is_partial(impl) -> None:
    """Only the CRC of the whole batch shows that it is a control batch."""
    torn = marker(0, 7)[:-1]
    assert impl.decode(torn, ["offset"]).status == "partial"
    assert impl.decode(torn, ["offset"], check_crcs=False).status == "end"


def test_find_batch(impl) -> None:
    batches = [
        v2([Rec()] * 3, 100),
        message(0, 103),
        wrapper(1, [message(1, 0)], 104, "gzip"),
        v2([Rec()], 105, "zstd"),
    ]
    garbage = bytes(range(256)) + bytes(300) + b"\0\0\0\1\2" * 30 + v2([Rec()], 99, crc=5) + b"\xff" * 13
    log = garbage + b"".join(batches)
    at = len(garbage)
    assert impl.find_batch(log) == at
    assert impl.find_batch(log, base_position=1000) == 1000 + at
    for batch in batches:
        assert impl.find_batch(log, at) == at
        assert impl.find_batch(log, at - 7) == at
        at += len(batch)
    assert impl.find_batch(log, at) is None
    assert impl.find_batch(log, at + 100) is None
    assert impl.find_batch(log[:-1], at - len(batches[-1])) is None  # not whole
    assert impl.find_batch(b"") is None


@pytest.mark.parametrize(
    ("batch", "header_bytes"),
    [(v2([Rec()] * 3, 5), 61), (wrapper(1, [message(1, 0)], 5, "gzip"), 26), (message(0, 5), 18)],
)
def test_find_batch_that_continues_beyond_the_buffer(impl, batch: bytes, header_bytes: int) -> None:
    whole = len(batch)
    for end in range(whole):
        position = impl.find_batch(b"\xff" * 9 + batch[:end], max_batch_bytes=whole)
        assert position == (None if end < header_bytes else 9)
        assert impl.find_batch(batch[:end], max_batch_bytes=whole - 1) is None
        assert impl.find_batch(batch[:end], min_offset=6, max_batch_bytes=whole) is None
    damaged = batch[:-1] + bytes([batch[-1] ^ 1])
    assert impl.find_batch(damaged, max_batch_bytes=whole) is None
    assert impl.find_batch(damaged[:-1], max_batch_bytes=whole) == 0
    assert impl.find_batch(batch + damaged[:-1], 1, max_batch_bytes=whole) == whole


def test_find_batch_by_offset(impl) -> None:
    log = v2([Rec()], 5) + v2([Rec()], 50) + v2([Rec()], 500)
    size = len(v2())
    assert impl.find_batch(log, min_offset=6) == size
    assert impl.find_batch(log, min_offset=50, max_offset=51) == size
    assert impl.find_batch(log, min_offset=51, max_offset=500) is None
    assert impl.find_batch(log, 1, max_offset=500) == size


@pytest.mark.parametrize(
    "batch",
    [
        v2([Rec()], 9, attributes=CONTROL),
        v2([], 9, last_offset_delta=3),
        marker(9, 1),
        v2([Rec()] * 2, 9, "snappy"),
    ],
)
def test_find_batch_of_any_kind(impl, batch: bytes) -> None:
    assert impl.find_batch(b"\0" * 40 + batch) == 40


def test_find_batch_within_zeros_and_batches(impl) -> None:
    """No batch begins within a batch, unless its records hold one."""
    batch = v2([Rec(None, b"v" * 1000)], 7)
    assert impl.find_batch(batch + bytes(5000), 1) is None
    holding = v2([Rec(None, b"--" + batch)], 7)
    assert impl.find_batch(holding, 1) == holding.index(batch)


@needs_kernel
@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["v2", "message", "wrapper", "noise"]),
            st.integers(0, 900),
            st.booleans(),  # whether its checksum is right
            st.booleans(),  # whether it holds what came before
        ),
        max_size=6,
    )
)
def test_find_batch_within_batches(parts: list[tuple[str, int, bool, bool]]) -> None:
    """Headers that claim the bytes after them, batches within batches: both find the same."""
    data = b""
    for kind, size, is_right, holds in parts:
        value = (data if holds else b"") + bytes(index * index % 251 for index in range(size))
        crc = None if is_right else 1
        if kind == "v2":
            part = v2([Rec(None, value)], 7, crc=crc)
        elif kind == "message":
            part = message(1, 7, None, value, crc=crc)
        elif kind == "wrapper":
            part = wrapper(0, [message(0, 7, None, value)], 7, "gzip", crc=crc)
        else:
            part = value
        data = part if holds else data + part
    starts = [0]
    while starts[-1] is not None:
        position = REFERENCE.find_batch(data, starts[-1])
        assert KERNEL.find_batch(data, starts[-1]) == position
        starts.append(None if position is None else position + 1)


SEARCH = """
import resource, struct
from native_log.records import kernel
resource.setrlimit(resource.RLIMIT_CPU, (15, 20))
size = 16 << 20
header = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 0)
data = bytearray()
while len(data) < size:
    data += struct.pack(">qiibI", 7, size - len(data) - 12, 0, 2, 1) + header + b"\\xff"
print(kernel.find_batch(data[:size]))
"""


@needs_kernel
def test_find_batch_among_many_headers() -> None:
    """The time a search takes does not grow with what headers claim: here 270,000 claim all that follows."""
    command = [sys.executable, "-W", "ignore", "-c", SEARCH]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "None\n"
