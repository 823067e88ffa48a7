"""Damaged bytes: each is reported with its position, or is the end of the written bytes. None is skipped
silently."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import zstandard

from tests.builders.batches import TRANSACTIONAL, Rec, marker, payload, v2, varint, with_right_crc
from tests.builders.codecs import XERIAL, ZSTD_TOO_SMALL_FOREVER
from tests.builders.legacy import message, wrapper

from .conftest import needs_kernel
from .rows import ALL, offsets, rows

if TYPE_CHECKING:
    from pathlib import Path

LOG = [
    v2([Rec(), Rec()], 0),
    message(0, 2),
    v2([Rec(headers=((b"h", b"v"),))], 3, "lz4"),
    message(1, 4),
    wrapper(1, [message(1, i) for i in range(3)], 7, "gzip"),
    v2([Rec()], 8, attributes=TRANSACTIONAL, producer_id=9),
    marker(9, 9),
    v2([], 10, last_offset_delta=2),
    v2([Rec()] * 2, 13, "zstd"),
]
WHOLE = b"".join(LOG)
ENDS = [sum(map(len, LOG[: i + 1])) for i in range(len(LOG))]
OFFSETS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 14]
HEADER_BYTES = {0: 18, 1: 26, 2: 61}


def damage(result, kind: str, position: int, size_bytes: int, offset: int | None):
    assert result.status == "damaged", result
    actual = result.damage
    assert (actual.kind, actual.position, actual.size_bytes, actual.offset) == (
        kind,
        position,
        size_bytes,
        offset,
    )
    assert result.position == position
    assert actual.message
    assert "\n" not in actual.message
    return actual


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_cut_at_every_byte(impl, cut: int) -> None:
    """Whole batches before the cut are read; the result has the size of the batch that was cut."""
    at = max([end for end in ENDS if end <= cut], default=0)
    decoded = impl.decode(WHOLE[:cut], ["offset"], base_position=100)
    whole = offsets(impl.decode(WHOLE[:at], ["offset"]).batch)
    assert offsets(decoded.batch) == whole
    assert decoded.position == 100 + at
    if cut == at:
        assert (decoded.status, decoded.needed_bytes) == ("end", 0)
        return
    left, batch = cut - at, LOG[([0, *ENDS]).index(at)]
    if not any(WHOLE[at:cut]):
        assert (decoded.status, decoded.needed_bytes) == ("zeros", 0)
        return
    header = HEADER_BYTES[batch[16]]
    needed = 17 if left < 17 else header if left < header else len(batch)
    assert (decoded.status, decoded.needed_bytes) == ("partial", needed)


@pytest.mark.parametrize("step", [*range(1, 40), 61, 62, 100, 200])
def test_the_next_call_starts_where_a_call_ended(impl, step: int) -> None:
    """A reader with a small buffer that grows to `needed_bytes` sees the same rows."""
    read, at, size, calls = [], 0, step, 0
    while at < len(WHOLE):
        decoded = impl.decode(WHOLE[at : at + size], ALL, base_position=at)
        assert decoded.status in ("end", "partial", "zeros")
        read += rows(decoded.batch)
        if decoded.position == at:
            assert max(decoded.needed_bytes, 17) > size
            size = max(decoded.needed_bytes, 17)
        else:
            size = step
        at = decoded.position
        calls += 1
        assert calls < 2000
    assert read == rows(impl.decode(WHOLE, ALL).batch)
    assert at == len(WHOLE)


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_scan_cut_at_every_byte(impl, cut: int) -> None:
    """A scan needs only the header of the last batch, and of a marker its key."""
    scanned = impl.scan(WHOLE[:cut])
    checked = impl.scan(WHOLE[:cut], check_crcs=True)
    whole = sum(end <= cut for end in ENDS)
    assert checked.batches.num_rows == whole
    assert checked.position == (ENDS[whole - 1] if whole else 0)
    assert checked.batches.column("isValid").to_pylist() == [True] * whole
    at = checked.position
    left, batch = cut - at, LOG[min(whole, len(LOG) - 1)]
    header = HEADER_BYTES[batch[16]]
    needed = min(61 + 32, len(batch)) if batch[16] == 2 and batch[22] & 0x20 else header
    by_header = whole + (left >= needed)
    assert scanned.batches.num_rows == by_header
    assert scanned.position == (ENDS[by_header - 1] if by_header else 0)
    if left >= needed:
        assert scanned.status == "end"
    elif left and any(WHOLE[at:cut]):
        expected = 17 if left < 17 else header if left < header else needed
        assert (scanned.status, scanned.needed_bytes) == ("partial", expected)


FIELDS = {
    "baseOffset": (0, 8),
    "leaderEpoch": (12, 16),
    "crc": (17, 21),
    "attributes": (21, 23),
    "lastOffsetDelta": (23, 27),
    "baseTimestamp": (27, 35),
    "maxTimestamp": (35, 43),
    "producerId": (43, 51),
    "producerEpoch": (51, 53),
    "baseSequence": (53, 57),
    "recordCount": (57, 61),
    "records": (61, 76),
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("how", [{}, {"start_offset": 5}], ids=["all", "from its offset"])
def test_a_flipped_bit(impl, field: str, how: dict) -> None:
    """Only base offset and leader epoch are not covered by the CRC. A flip that makes the batch look like one
    without rows (a control batch, no records, an end before its start) does not hide it."""
    batch = v2([Rec()], 5, attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)
    assert len(batch) == 76
    first, end = FIELDS[field]
    for bit in range(first * 8, end * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        decoded = impl.decode(bytes(flipped) + batch, ["offset"], **how)
        if field == "baseOffset":
            assert decoded.status == "end"
        elif field == "leaderEpoch":
            assert offsets(decoded.batch) == [5, 5]
        else:
            damage(decoded, "crc", 0, len(batch), 5)
            assert impl.scan(bytes(flipped), check_crcs=True).batches.column("isValid").to_pylist() == [False]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_flipped_bit_in_a_message(impl, magic: int) -> None:
    data = message(magic, 5)
    for bit in range(12 * 8, len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        decoded = impl.decode(bytes(flipped), ["offset"])
        assert decoded.status in ("damaged", "partial")  # partial: it became a batch of magic 2, too short
        assert decoded.batch.num_rows == 0


@pytest.mark.parametrize("size", [13, 0, -1, -(2**31)])
@pytest.mark.parametrize("batch", [v2(), message(0), message(1)], ids=["v2", "v0", "v1"])
def test_impossible_sizes(impl, size: int, batch: bytes) -> None:
    before = v2([Rec()], 7)
    lie = struct.pack(">qi", 8, size) + batch[12:]
    for result in (impl.decode(before + lie, ["offset"]), impl.scan(before + lie)):
        actual = damage(result, "size", len(before), 0, 8)
        assert str(size) in actual.message
        assert result.next_offset == 8


@pytest.mark.parametrize("size", [2**31 - 1, 2**28])
def test_a_huge_claim(impl, size: int) -> None:
    lie = v2([Rec()], 8, size=size)
    for result in (impl.decode(lie, ["offset"]), impl.scan(lie)):
        assert "max_batch_bytes" in damage(result, "too-large", 0, size + 12, 8).message
    if size < 2**31 - 1:
        decoded = impl.decode(lie, ["offset"], max_batch_bytes=2**31)
        assert (decoded.status, decoded.needed_bytes) == ("partial", size + 12)


LIES = [
    v2([Rec()], size=2**31 - 13),
    v2([Rec()], record_count=2**31 - 1),
    v2([Rec()], records=varint(2**31 - 1) + b"x"),
    v2([Rec()], records=b"\x0c\0\0\0\1\1" + varint(2**31 - 1)[:1]),
    v2([Rec()], codec="snappy", records=b"\xff\xff\xff\xff\x07" + bytes(50)),
    v2([Rec()], codec="snappy", records=XERIAL + b"\x7f\xff\xff\xff" + bytes(50)),
    v2([Rec()], codec="lz4", records=bytes.fromhex("04224d186870") + struct.pack("<Q", 2**40) + bytes(9)),
    v2([Rec()], codec="zstd", records=b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**31) + bytes(20)),
    v2([Rec()], codec="zstd", records=ZSTD_TOO_SMALL_FOREVER),
    message(1, key_length=2**31 - 1),
]
PEAK = """
import pathlib, re, resource, sys

def peak_bytes():
    # ru_maxrss of a new process begins at that of its parent, whose memory it shares until exec.
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s+([0-9]+) kB", status.read_text())[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: in bytes
"""
MEASURE = (
    PEAK
    + """
from native_log.records import DecodeOptions, {name} as impl
from native_log.records.schema import RECORD_SCHEMA
lies = [pathlib.Path(name).read_bytes() for name in sys.argv[1:]]
impl.decode(lies[0], ["offset"], DecodeOptions())
before = peak_bytes()
for lie in lies:
    assert impl.decode(lie, RECORD_SCHEMA.names, DecodeOptions()).damage or impl.scan(lie)
    impl.decode(lie, RECORD_SCHEMA.names, DecodeOptions(check_crcs=False, max_batch_bytes=2**31))
    impl.find_batch(lie)
print(peak_bytes() - before)
"""
)


def test_memory_for_lies(impl, tmp_path: Path) -> None:
    """A few bytes that claim gigabytes: the process hardly grows."""
    files = [tmp_path / f"{i}.log" for i in range(len(LIES))]
    for file, lie in zip(files, LIES, strict=True):
        file.write_bytes(lie)
    command = [sys.executable, "-W", "ignore", "-c", MEASURE.format(name=impl.name), *map(str, files)]
    grown = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert grown < 64 << 20


MANY = (
    PEAK
    + """
from dataclasses import replace
from native_log.records import InputOptions, RewriteOptions, kernel as impl
data = pathlib.Path(sys.argv[1]).read_bytes()
every = impl.Survivors()
every.add_range(1, 1 << 21)
options = RewriteOptions(every, 1 << 21, 0, None)
buckets = impl.KeyBuckets(1, 1 << 20, dirty=True)
steps = dict(
    put=lambda: impl.OffsetMap(1 << 20).put_batches(data, InputOptions()),
    mark=lambda: impl.OffsetMap(1 << 20).mark(data, every, InputOptions()),
    pack=lambda: buckets.put_batches(data, InputOptions()),
    copy=lambda: impl.rewrite(data, options),
    write=lambda: impl.rewrite(data, replace(options, nulled=every)),
)
impl.rewrite(b"", options)
before = peak_bytes()
for name, step in steps.items():
    found = step()
    assert found.status == "end", (name, found)
    records = found.stats.records_kept if name in ("copy", "write") else found.records
    print(name, records, peak_bytes() - before)
"""
)


@needs_kernel
@pytest.mark.parametrize("magic", [1, 2])
def test_memory_for_many_records(magic: int, tmp_path: Path) -> None:
    """A small batch can hold millions of records: compaction takes the memory they take decompressed, once as
    read and once as written."""
    content_bytes = 31 << 20  # what is decompressed into doubles, up to 32 MiB
    if magic == 2:
        record = payload([Rec(b"", b"", offset_delta=0)])
        count = content_bytes // len(record)
        records = zstandard.compress(record * count)
        batch = v2([], 7, "zstd", record_count=count, last_offset_delta=0, records=records)
    else:
        record = message(1, 0, b"", b"")
        count = content_bytes // len(record)
        # No CRC covers the offset, which has to increase.
        batch = wrapper(1, [struct.pack(">q", offset) + record[8:] for offset in range(count)], count, "gzip")
    assert len(batch) < content_bytes // 8
    file = tmp_path / "many.log"
    file.write_bytes(batch)
    command = [sys.executable, "-W", "ignore", "-c", MANY, str(file)]
    out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    for name, records, grown in map(str.split, out.splitlines()):
        assert int(records) == count, out
        assert int(grown) < (96 << 20 if name == "write" else 56 << 20), out


@pytest.mark.parametrize("magic", [3, -1, 127, -128])
def test_unknown_magic(impl, magic: int) -> None:
    batch = v2([Rec()], 8, magic=0)
    lie = batch[:16] + struct.pack(">b", magic) + batch[17:]
    for result in (impl.decode(lie, ["offset"]), impl.scan(lie)):
        assert str(magic) in damage(result, "magic", 0, len(lie), 8).message


@pytest.mark.parametrize(("magic", "least"), [(0, 26), (1, 34), (2, 61)])
def test_too_small_for_its_header(impl, magic: int, least: int) -> None:
    for size in range(14, least - 12):
        lie = struct.pack(">qiib", 8, size, 0, magic) + bytes(100)
        for result in (impl.decode(lie, ["offset"]), impl.scan(lie)):
            damage(result, "size", 0, 12 + size, 8)
    assert impl.scan(struct.pack(">qiib", 8, least - 12, 0, magic) + bytes(100)).batches.num_rows == 1


def test_order_of_checks(impl) -> None:
    def first(size: int, magic: int, rest: int = 100, **how) -> str:
        return impl.decode(
            struct.pack(">qiib", 8, size, 0, magic) + bytes(rest), ["offset"], **how
        ).damage.kind

    assert first(13, 3) == "size"
    assert first(200, 3, max_batch_bytes=100) == "magic"
    assert first(20, 2, max_batch_bytes=20) == "too-large"
    assert first(20, 2, rest=0) == "size"


@pytest.mark.parametrize("zeros", [1, 11, 12, 13, 17, 61, 200_000])
def test_zeros(impl, zeros: int) -> None:
    """A preallocated file ends so."""
    log = v2([Rec()], 7)
    for result in (impl.decode(log + bytes(zeros), ["offset"]), impl.scan(log + bytes(zeros))):
        assert (result.status, result.position, result.next_offset) == ("zeros", len(log), 8)
    almost = log + bytes(zeros) + b"\1"
    result = impl.decode(almost, ["offset"])
    if zeros + 1 < 17:
        assert (result.status, result.needed_bytes) == ("partial", 17)
    else:
        damage(result, "size", len(log), 0, 0)


def test_nothing(impl) -> None:
    for result in (impl.decode(b"", ["offset"], base_position=9), impl.scan(b"", base_position=9)):
        assert (result.status, result.position, result.next_offset, result.needed_bytes) == (
            "end",
            9,
            None,
            0,
        )


def test_scan_continues_after_a_wrong_crc(impl) -> None:
    scanned = impl.scan(v2([Rec()], 1, crc=1) + v2([Rec()], 2), check_crcs=True)
    assert scanned.batches.column("isValid").to_pylist() == [False, True]
    assert impl.scan(v2([Rec()], 1, crc=1)).batches.column("isValid").to_pylist() == [None]


def test_an_aborted_batch_must_be_undamaged(impl) -> None:
    """One flipped bit can make any batch look like one of another producer, whose transaction was aborted."""
    aborted = {"aborted": struct.pack("=qqq", 7, 5, 9)}
    whole = v2([Rec()] * 3, 5, attributes=TRANSACTIONAL, producer_id=7)
    decoded = impl.decode(whole, ["offset"], **aborted)
    assert (decoded.status, decoded.batch.num_rows, decoded.next_offset) == ("end", 0, 8)
    assert impl.decode(whole[:61], ["offset"], **aborted).status == "partial"
    other = bytearray(v2([Rec()] * 3, 5, attributes=TRANSACTIONAL, producer_id=6))
    other[50] ^= 1
    damage = impl.decode(bytes(other), ["offset"], **aborted).damage
    assert (damage.kind, damage.offset) == ("crc", 5)


def test_crcs_need_not_be_checked(impl) -> None:
    log = v2([Rec()], 1, crc=1)
    assert offsets(impl.decode(log, ["offset"], check_crcs=False).batch) == [1]
    assert impl.decode(log, ["offset"]).status == "damaged"
    assert with_right_crc(log) == v2([Rec()], 1)


def test_skipped_by_header_alone(impl) -> None:
    """Out of range, or aborted if checksums are not checked: not even its bytes need be there."""
    broken = v2([Rec()] * 3, 5, crc=1, records=b"\xff" * 50, attributes=TRANSACTIONAL, producer_id=7)
    header = broken[:61]
    for how in (
        {"start_offset": 8},
        {"end_offset": 5},
        {"aborted": struct.pack("=qqq", 7, 5, 9), "check_crcs": False},
        {"aborted": struct.pack("=9q", 6, 0, 99, 7, 0, 3, 7, 4, 8), "check_crcs": False},
    ):
        decoded = impl.decode(header, ["offset"], **how)
        assert (decoded.status, decoded.position, decoded.next_offset) == ("end", len(broken), 8), how
        decoded = impl.decode(broken + v2([Rec()], 9), ["offset"], **how)
        assert (decoded.status, decoded.position) == ("end", len(broken) + len(v2())), how
