"""The end of a log: an unfinished write ends the log silently, and other damage raises an error."""

from __future__ import annotations

import logging
import os
import pickle
from typing import TYPE_CHECKING

import pytest

from native_log.errors import CorruptRecordError, LogTruncatedError
from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.segment.files import file_name
from native_log.storage import DataFile
from tests.builders.batches import Rec, batch, v2
from tests.builders.legacy import message, wrapper
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path

LAST = {
    "v2": lambda: batch(6, 3, size=30),
    "v2 lz4": lambda: batch(6, 3, size=300, codec="lz4"),
    "v1": lambda: message(1, 6),
    "v0": lambda: message(0, 6),
    "v1 gzip": lambda: wrapper(1, [message(1, i) for i in range(3)], 8, "gzip"),
}
CLEAN = PartitionCheckpoints(clean_shutdown=True)


def read(directory: Path, checkpoints: PartitionCheckpoints | None = None) -> list[int]:
    log = PartitionLog.open(directory, checkpoints=checkpoints)
    read_offsets = offsets(log.read(columns=["offset"]))
    assert log.log_end_offset == (read_offsets[-1] + 1 if read_offsets else log.segments[-1].base_offset)
    return read_offsets


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("zeros", [0, 7, 500])
def test_truncated_at_every_byte(tmp_path: Path, last: str, zeros: int) -> None:
    """With `zeros`, the file is preallocated and the pages after the cut were not written."""
    data = LAST[last]()
    for length in range(len(data)):
        write_log(tmp_path, {0: [batch(0), batch(3), data[:length], bytes(zeros)]})
        if (data[:length] + bytes(zeros)).startswith(data):  # its last bytes are zeros
            continue
        if zeros == 0:
            assert read(tmp_path, CLEAN) == list(range(6)), length
        if zeros == 0 or not any(data[:length]) or length > 17:
            assert read(tmp_path) == list(range(6)), length


@pytest.mark.parametrize("last", LAST)
def test_the_first_batch_torn(tmp_path: Path, last: str) -> None:
    for length in range(len(LAST[last]())):
        write_log(tmp_path, {6: [LAST[last]()[:length]]})
        assert read(tmp_path) == []


def test_last_batch_with_a_wrong_crc(tmp_path: Path) -> None:
    """The batch counts as incomplete, unless the broker shut down cleanly."""
    last = bytearray(batch(6))
    last[-1] ^= 1
    write_log(tmp_path, {0: [batch(0), batch(3), last]})
    assert read(tmp_path) == list(range(6))
    log = PartitionLog.open(tmp_path, checkpoints=CLEAN)
    assert log.log_end_offset == 9
    with pytest.raises(CorruptRecordError, match="CRC"):
        list(log.read())
    write_log(tmp_path, {0: [batch(0), batch(3), last, batch(9)]})
    with pytest.raises(CorruptRecordError, match="CRC") as raised:
        list(PartitionLog.open(tmp_path).read())
    assert (raised.value.position, raised.value.offset) == (2 * len(batch(0)), 6)


def test_a_damaged_last_batch_in_a_file_that_is_replaced_during_a_read(tmp_path: Path) -> None:
    """A reader opens the log again, with the same checkpoints, and then finds the same end."""
    last = bytearray(batch(6))
    last[-1] ^= 1
    write_log(tmp_path, {0: [batch(0), batch(3), last]})
    planned = pickle.loads(pickle.dumps(PartitionLog.open(tmp_path, checkpoints=CLEAN).range()))
    path = tmp_path / file_name(0, "log")
    (tmp_path / "copy").write_bytes(path.read_bytes())
    (tmp_path / "copy").rename(path)
    with pytest.raises(CorruptRecordError, match="CRC") as raised:
        list(planned.read())
    assert (raised.value.position, raised.value.offset) == (2 * len(batch(0)), 6)


@pytest.mark.parametrize("count", [1, 11, 12, 17, 61, 777, 5_000_000])
def test_zeros_at_the_end(tmp_path: Path, count: int) -> None:
    write_log(tmp_path, {0: [batch(0), batch(3), bytes(count)]})
    assert read(tmp_path) == list(range(6))


def test_preallocated_and_empty(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0)], 3: []})
    os.truncate(tmp_path / file_name(3, "log"), 1 << 30)
    assert read(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("after", [b"\1", batch(6)])
def test_zeros_within(tmp_path: Path, after: bytes) -> None:
    write_log(tmp_path, {0: [batch(0), batch(3), bytes(300_000), after]})
    log = PartitionLog.open(tmp_path)
    read_offsets = []
    with pytest.raises(CorruptRecordError, match="size") as raised:
        for part in log.read(columns=["offset"]):
            read_offsets += offsets([part])
    assert read_offsets == list(range(6))
    assert raised.value.position == 2 * len(batch(0))
    rest = offsets(log.read(columns=["offset"], mode="dropMalformed"))
    assert rest == list(range(9 if len(after) > 1 else 6))


def test_garbage_at_the_end_is_damage(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0), batch(3), b"\xff" * 100]})
    log = PartitionLog.open(tmp_path)
    assert log.log_end_offset == 6
    with pytest.raises(CorruptRecordError) as raised:
        list(log.read())
    assert raised.value.position == 2 * len(batch(0))
    assert offsets(log.read(0, 5, ["offset"])) == list(range(5))  # the requested range ends before it


@pytest.mark.parametrize("length", [1, 17, 60, 70])
def test_a_torn_batch_in_a_segment_before_the_last(tmp_path: Path, length: int) -> None:
    """A broker wrote more after it, so bytes are missing."""
    write_log(tmp_path, {0: [batch(0), batch(3)[:length]], 6: [batch(6)]})
    log = PartitionLog.open(tmp_path)
    read_offsets = []
    with pytest.raises(CorruptRecordError, match="up to the segment's end") as raised:
        for part in log.read(columns=["offset"]):
            read_offsets += offsets([part])
    assert (read_offsets, raised.value.position, raised.value.offset) == ([0, 1, 2], len(batch(0)), 3)
    assert offsets(log.read(columns=["offset"], mode="dropMalformed")) == [0, 1, 2, 6, 7, 8]


def test_a_size_beyond_the_end_of_file_with_batches_after_it(tmp_path: Path) -> None:
    """This is not an unfinished write, because batches follow."""
    hiding = bytearray(batch(3))
    hiding[8:12] = (10**6).to_bytes(4, "big")
    write_log(tmp_path, {0: [batch(0), hiding, batch(6)]})
    log = PartitionLog.open(tmp_path)
    assert log.log_end_offset == 9
    with pytest.raises(CorruptRecordError) as raised:
        list(log.read())
    assert raised.value.position == len(batch(0))
    assert offsets(log.read(columns=["offset"], mode="dropMalformed")) == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("at", range(100))
def test_the_index_avoids_reading_earlier_bytes(tmp_path: Path, at: int) -> None:
    """The log is truncated anywhere, and its index has entries beyond the end."""
    batches = [batch(o, 2, size=40) for o in range(0, 40, 2)]
    size = len(batches[0])
    write_log(tmp_path, {0: batches})
    entries = [(2 * i + 1, i * size) for i in range(1, 20)]
    index = b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in entries)
    (tmp_path / file_name(0, "index")).write_bytes(index + bytes(80))
    cut = 20 * size * at // 100
    os.truncate(tmp_path / file_name(0, "log"), cut)
    assert read(tmp_path) == list(range(2 * (cut // size)))


def test_header_scans_do_not_read_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(batch(0, 3, size=200_000))
    write_log(tmp_path, {0: [batch(o, 3, size=200_000) for o in range(0, 60, 3)], 60: []})
    bytes_read = 0
    read_into = DataFile.read_into

    def counted(self: DataFile, buffer: memoryview, position: int) -> None:
        nonlocal bytes_read
        bytes_read += len(buffer)
        read_into(self, buffer, position)

    monkeypatch.setattr(DataFile, "read_into", counted)
    log = PartitionLog.open(tmp_path)
    assert sum(part.num_rows for part in log.batches()) == 20
    assert bytes_read <= 20 * 4096
    assert log.last_stable_offset == 60
    assert bytes_read <= 2 * 20 * 4096 < size


@pytest.mark.parametrize(
    ("end", "invalid"),
    [
        (batch(6)[:-1], "less than a whole batch"),
        (bytes(500), "zeros"),
        (batch(6, crc=1), "a batch with a wrong checksum"),
        (b"garbage", "less than a whole batch"),
    ],
)
@pytest.mark.parametrize("first", [[batch(0), batch(3)], []])
def test_bytes_after_the_last_batch_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: list[bytes], end: bytes, invalid: str
) -> None:
    """They are reported once in every mode, but not while a broker writes to the directory."""
    log = PartitionLog.open(write_log(tmp_path / "t-0", {0: [*first, end]}))
    position, offset = sum(map(len, first)), 3 * len(first)
    assert log.invalid_bytes == len(end)
    with caplog.at_level(logging.WARNING):
        for mode in ("failFast", "dropMalformed", "permissive"):
            assert offsets(log.read(columns=["offset"], mode=mode)) == list(range(offset))
        list(PartitionLog.open(log.path).batches())
        log.transactions()
    (record,) = caplog.records
    for part in (
        str(log.path),
        f"ends at offset {offset}",
        f"{len(end)} bytes",
        f"position {position} of",
        invalid,
    ):
        assert part in record.getMessage()
    caplog.clear()
    live = PartitionLog.open(log.path, checkpoints=PartitionCheckpoints(high_watermark=offset, live=True))
    with caplog.at_level(logging.WARNING):
        assert offsets(live.read(columns=["offset"])) == list(range(offset))
        assert offsets(log.read(0, offset, ["offset"])) == list(range(offset))  # nothing is missing there
    assert (caplog.records, live.invalid_bytes) == ([], 0)


@pytest.mark.parametrize("sign", ["high watermark", "snapshot"])
def test_a_missing_end_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture, sign: str) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0), batch(3)]})
    checkpoints = None
    if sign == "snapshot":
        (path / file_name(9, "snapshot")).write_bytes(bytes.fromhex("000148674bc700000000"))
    else:
        checkpoints = PartitionCheckpoints(high_watermark=9)
    with caplog.at_level(logging.WARNING):
        assert read(path, checkpoints) == list(range(6))
    (record,) = caplog.records
    assert "the log ends at offset 6, but" in record.getMessage()
    assert ("replication-offset-checkpoint" if checkpoints else "9.snapshot") in record.getMessage()
    with caplog.at_level(logging.WARNING):
        assert read(path, checkpoints) == list(range(6))
    assert len(caplog.records) == 1


def test_a_middle_segment_that_is_truncated_during_a_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0)], 3: [batch(3)], 6: [batch(6)]})
    whole = PartitionLog.open(path).range()
    os.truncate(path / file_name(3, "log"), 0)
    with pytest.raises(LogTruncatedError, match="the file was truncated while it was read") as raised:
        list(whole.read(["offset"]))
    assert (raised.value.path, raised.value.offset) == (str(path / file_name(3, "log")), 3)
    with caplog.at_level(logging.WARNING):
        assert offsets(whole.read(["offset"], fail_on_data_loss=False)) == [0, 1, 2, 6, 7, 8]
    assert ["from offset 3 on" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("checkpoints", [CLEAN, PartitionCheckpoints()], ids=["clean", "unclean"])
def test_the_time_of_the_last_batch(tmp_path: Path, checkpoints: PartitionCheckpoints) -> None:
    batches = [batch(3 * number, max_timestamp=1000 + number) for number in range(3)]
    for length in range(1, len(batches[2])):
        write_log(tmp_path, {0: [*batches[:2], batches[2][:length]]})
        assert PartitionLog.open(tmp_path, checkpoints=checkpoints).state.tail.last_timestamp_ms == 1001, (
            length
        )
    write_log(tmp_path, {0: batches})
    assert PartitionLog.open(tmp_path, checkpoints=checkpoints).state.tail.last_timestamp_ms == 1002
    write_log(tmp_path, {0: [*batches[:2], batches[2][:-1] + b"?"]})
    is_dropped = not checkpoints.clean_shutdown
    log = PartitionLog.open(tmp_path, checkpoints=checkpoints)
    assert log.state.tail.last_timestamp_ms == (1001 if is_dropped else 1002)
    write_log(tmp_path, {0: [message(0, 0)]})
    assert PartitionLog.open(tmp_path).state.tail.last_timestamp_ms == -1


@pytest.mark.parametrize("checkpoints", [CLEAN, PartitionCheckpoints()], ids=["clean", "unclean"])
def test_the_largest_timestamp_of_the_last_segment(tmp_path: Path, checkpoints: PartitionCheckpoints) -> None:
    def timestamp_ms(*batches: bytes) -> int | None:
        write_log(tmp_path, {0: [batch(0, max_timestamp=9000)], 3: batches})
        return PartitionLog.open(tmp_path, checkpoints=checkpoints).state.tail.segment_timestamp_ms

    first, last = batch(3, max_timestamp=2000), batch(6, max_timestamp=1000)
    assert timestamp_ms(first, last) == 2000
    assert timestamp_ms(first, last[:-1]) == 2000  # an unfinished write, which is ignored
    assert timestamp_ms(message(0, 3)) == -1
    # Not all batches are known.
    assert timestamp_ms(first, last[:-1] + b"?") is None
    assert timestamp_ms(first, b"?" * 100, last) is None
    assert timestamp_ms() is None


def test_the_largest_timestamp_is_unknown_if_only_the_end_is_read(tmp_path: Path) -> None:
    batches = [batch(3 * number, max_timestamp=1000 - number) for number in range(3)]
    large = v2([Rec(value=bytes(64 << 10))], 0)
    write_log(tmp_path, {0: [large, *batches[1:]]})
    entry = (6).to_bytes(4, "big") + (len(large) + len(batches[1])).to_bytes(4, "big")
    (tmp_path / file_name(0, "index")).write_bytes(entry)
    assert PartitionLog.open(tmp_path).state.tail.segment_timestamp_ms is None


def test_an_empty_log_has_no_last_batch(tmp_path: Path) -> None:
    write_log(tmp_path, {0: []})
    assert PartitionLog.open(tmp_path).state.tail.last_timestamp_ms is None
