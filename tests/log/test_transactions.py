"""Aborted transactions and the last stable offset, from markers and snapshots."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import pytest
from crc32c import crc32c
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import native_log
from native_log.errors import CorruptIndexError, CorruptRecordError
from native_log.log import PartitionCheckpoints, PartitionLog, readable_log
from native_log.log.producers.producer_state import ProducerStateEntry, parse_snapshot
from native_log.log.producers.transactions import aborted_ranges, without_overlaps
from native_log.log.reading import reader
from native_log.segment.files import file_name
from tests.builders.batches import ABORT, COMMIT, TRANSACTIONAL, batch, marker, v2
from tests.builders.golden import PARTITIONS, golden, open_golden
from tests.builders.logs import write_log
from tests.contents import offsets
from tests.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.log import LogRange

COMMITTED = "read_committed"


class Step(NamedTuple):
    """A step of a producer: a batch of `count` records, or the marker that ends its transaction."""

    producer_id: int
    kind: str
    count: int = 1

    def data(self, offset: int) -> bytes:
        if self.kind in ("commit", "abort"):
            return marker(offset, self.producer_id, COMMIT if self.kind == "commit" else ABORT, epoch=3)
        if self.kind == "plain":
            return batch(offset, self.count, producer_id=self.producer_id, producer_epoch=2)
        return batch(
            offset, self.count, producer_id=self.producer_id, producer_epoch=2, attributes=TRANSACTIONAL
        )


def write_steps(directory: Path, steps: list[Step], roll_every: int) -> list[int]:
    """Write the steps into segments of `roll_every` batches. Return the first offset of each, and the end."""
    segments: dict[int, list[bytes]] = {}
    firsts = [0]
    for number, step in enumerate(steps):
        if number % roll_every == 0:
            segments[firsts[-1]] = current = []
        current.append(step.data(firsts[-1]))
        firsts.append(firsts[-1] + step.count)
    write_log(directory, segments or {0: []})
    return firsts


def committed(steps: list[Step], firsts: list[int]) -> tuple[list[int], int]:
    """Return the offsets that a read_committed consumer gets, and the last stable offset, by definition."""
    rows, undecided = decided(steps, firsts)
    stable = min([firsts[-1], *undecided])
    return [row for row in rows if row < stable], stable


def decided(steps: list[Step], firsts: list[int]) -> tuple[list[int], list[int]]:
    """Return the offsets of all committed records, and the first offsets of the batches without a marker."""
    rows, undecided = [], []
    for number, step in enumerate(steps):
        if step.kind in ("commit", "abort"):
            continue
        later = (s.kind for s in steps[number:] if s.producer_id == step.producer_id)
        end = next((kind for kind in later if kind in ("commit", "abort")), None)
        if step.kind == "data" and end is None:
            undecided.append(firsts[number])
        if step.kind == "plain" or end == "commit":
            rows += range(firsts[number], firsts[number + 1])
    return rows, undecided


steps = st.lists(
    st.one_of(
        st.builds(
            Step,
            st.sampled_from([1, 2, 2**40]),
            st.sampled_from(["data", "data", "plain"]),
            st.integers(1, 4),
        ),
        st.builds(Step, st.sampled_from([1, 2, 2**40]), st.sampled_from(["commit", "abort"]), st.just(1)),
    ),
    max_size=25,
)


@settings(max_examples=examples(75), deadline=None)
@given(steps, st.integers(1, 8), st.data())
def test_any_part_of_any_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], roll_every: int, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("txn")
    firsts = write_steps(directory, steps, roll_every)
    rows, stable = committed(steps, firsts)
    log = PartitionLog.open(directory)
    assert log.last_stable_offset == stable
    assert offsets(log.read(columns=["offset"], isolation_level=COMMITTED)) == rows
    start = data.draw(st.integers(0, stable))
    end = data.draw(st.integers(start, firsts[-1]))
    whole = log.range(start, end, isolation_level=COMMITTED)
    assert offsets(whole.read(["offset"])) == [o for o in rows if start <= o < end]
    parts = whole.split(data.draw(st.integers(50, 1000)))
    assert [o for part in parts for o in offsets(part.read(["offset"]))] == [
        o for o in rows if start <= o < end
    ]
    live = PartitionLog.open(directory, checkpoints=PartitionCheckpoints(high_watermark=end, live=True))
    # For a consumer, a transaction whose marker is at or above the high watermark is undecided.
    below = [s for s, first in zip(steps, firsts, strict=False) if first < end]
    if end in firsts:
        assert live.last_stable_offset == committed(below, firsts[: len(below) + 1])[1]
    # The log may start anywhere, even within a transaction: later markers still decide.
    base = data.draw(st.sampled_from([s.base_offset for s in log.segments]))
    for segment in log.segments:
        if segment.base_offset < base:
            segment.path.unlink()
    trimmed = PartitionLog.open(directory)
    left = firsts.index(base)
    rows, stable = committed(steps[left:], firsts[left:])
    assert trimmed.last_stable_offset == stable
    assert offsets(trimmed.read(columns=["offset"], isolation_level=COMMITTED)) == rows


@settings(max_examples=examples(75), deadline=None)
@given(steps, st.integers(1, 8), st.data())
def test_lost_markers_are_replaced_by_the_indexes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], roll_every: int, data: st.DataObject
) -> None:
    steps = [Step(1, "data"), Step(2, "data"), Step(1, "abort"), *steps]
    directory = tmp_path_factory.mktemp("lost-marker") / "t-0"
    firsts = write_steps(directory, steps, roll_every)
    rows, _ = committed(steps, firsts)
    native_log.reindex(directory)
    markers = [number for number, step in enumerate(steps) if step.kind in ("abort", "commit")]
    lost = data.draw(st.sampled_from(markers))
    producer_id = steps[lost].producer_id
    own = [
        step.kind for step in steps[lost + 1 :] if step.producer_id == producer_id and step.kind != "plain"
    ]
    assume(own[:1] in ([], ["data"]))  # no marker of a transaction without data
    first = lost - lost % roll_every
    position = sum(len(step.data(0)) for step in steps[first:lost])
    with (directory / file_name(firsts[first], "log")).open("r+b") as log_file:
        log_file.seek(position)
        log_file.write(b"damaged")
    log = PartitionLog.open(directory)
    read = offsets(log.read(columns=["offset"], isolation_level=COMMITTED, mode="dropMalformed"))
    assert read == [row for row in rows if row < log.last_stable_offset]
    scan = log.scan(columns=["offset"], isolation_level=COMMITTED, mode="dropMalformed")
    assert scan.count_rows() == len(read)


@settings(max_examples=examples(100), deadline=None)
@given(steps, st.integers(1, 8), st.data())
def test_no_flipped_bit_changes_rows_silently(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], roll_every: int, data: st.DataObject
) -> None:
    """It can turn a batch into one of another producer, or into one that opens or ends a transaction.

    If it hides the only batch of an open transaction, damage that is skipped ends the log later.
    """
    directory = tmp_path_factory.mktemp("flipped") / "t-0"
    steps = [Step(1, "data"), *steps, Step(1, "commit")]
    firsts = write_steps(directory, steps, roll_every)
    rows, _ = committed(steps, firsts)
    native_log.reindex(directory)
    number = data.draw(st.integers(0, len(steps) - 1))
    damaged = steps[number].data(firsts[number])
    bit = data.draw(st.integers(8 * 17, 8 * len(damaged) - 1))  # the checksum covers the bytes from 17 on
    log_file = directory / file_name(firsts[number - number % roll_every], "log")
    content = bytearray(log_file.read_bytes())
    content[content.index(damaged) + bit // 8] ^= 1 << bit % 8
    log_file.write_bytes(content)
    log = PartitionLog.open(directory)
    skipped = offsets(log.read(columns=["offset"], isolation_level=COMMITTED, mode="dropMalformed"))
    assert set(skipped) <= set(decided(steps, firsts)[0])
    with patch.object(readable_log, "_warn_once") as warn:
        try:
            read = offsets(log.read(columns=["offset"], isolation_level=COMMITTED))
        except CorruptRecordError:
            return
    assert read == rows[: len(read)]
    assert read == rows or warn.mock_calls


def test_transactions_of_the_index_within_a_longer_one() -> None:
    assert without_overlaps([(1, 40, 60), (1, 0, 100), (2, 50, 70), (1, 101, 120), (1, 110, 130)]) == [
        (1, 0, 100),
        (1, 101, 130),
        (2, 50, 70),
    ]


def test_listing(tmp_path: Path) -> None:
    write_steps(
        tmp_path,
        [
            Step(1, "data", 2),  # 0, 1
            Step(2, "data", 1),  # 2
            Step(1, "abort"),  # 3
            Step(1, "abort"),  # 4: ends a transaction without data
            Step(1, "data", 1),  # 5
            Step(2, "commit"),  # 6
            Step(3, "plain", 1),  # 7
            Step(3, "data", 1),  # 8
        ],
        2,
    )
    table = PartitionLog.open(tmp_path).transactions()
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (1, 2, 0, 3, "aborted", 2),
        (2, 2, 2, 6, "committed", 5),
        (1, 2, 5, None, "open", None),
        (3, 2, 8, None, "open", None),
    ]


def test_an_empty_control_batch_ends_no_transaction(tmp_path: Path) -> None:
    emptied = v2(
        [], 2, attributes=0x30, producer_id=1, producer_epoch=2, last_offset_delta=0, base_timestamp=-1
    )
    data = Step(1, "data", 2).data(0)
    write_log(tmp_path, {0: [data, emptied, batch(3), Step(1, "abort").data(6)]})
    log = PartitionLog.open(tmp_path)
    assert offsets(log.read(columns=["offset"], isolation_level=COMMITTED)) == [3, 4, 5]
    (only,) = log.transactions().to_pylist()
    assert (only["firstOffset"], only["lastOffset"], only["state"]) == (0, 6, "aborted")


@pytest.mark.parametrize(
    "partition",
    [p for p in PARTITIONS if "/txn" in p.fixture or "txn" in p.fixture.split("/")[1]],
    ids=lambda p: p.fixture,
)
def test_aborted_transactions_as_the_brokers_indexed_them(partition: object) -> None:
    log = open_golden(partition)  # type: ignore[arg-type]
    indexed = [txn for segment in log.segments for txn in segment.load_transaction_index().entries]
    listed = {row["lastOffset"]: row for row in log.transactions().to_pylist() if row["state"] == "aborted"}
    for txn in indexed:
        row = listed.get(txn.last_offset)
        if row is None:  # compaction or DeleteRecords removed its data
            assert "compact" in str(log.path) or txn.first_offset < log.log_start_offset
            continue
        assert (row["producerId"], row["lastOffset"]) == (txn.producer_id, txn.last_offset)
        if txn.first_offset >= log.log_start_offset and "compact" not in str(log.path):
            assert row["firstOffset"] == txn.first_offset
        if txn.last_stable_offset >= log.log_start_offset and "compact" not in str(log.path):
            assert row["lastStableOffset"] == txn.last_stable_offset
    if indexed:
        assert {txn.last_offset for txn in indexed} >= set(listed)


VECTOR = bytes.fromhex(
    "0001ed025f1a00000001000000000000000700030000001d00000000000000260000000900000174876e800000000005ffffffffffffffff"
)


def test_snapshot() -> None:
    assert parse_snapshot(VECTOR) == [ProducerStateEntry(7, 3, 29, 38, 9, 1_600_000_000_000, 5, -1)]
    assert parse_snapshot(bytes.fromhex("000148674bc700000000")) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "at least 10 bytes, found 0"),
        (b"\0\0" + VECTOR[2:], "version 1, found 0"),
        (VECTOR[:-1] + b"\0", "checksum"),
        (VECTOR[:-1], "checksum"),
        (
            b"\0\1" + struct.pack(">I", crc32c(b"\0\0\0\2" + VECTOR[10:])) + b"\0\0\0\2" + VECTOR[10:],
            "expected 2 entries",
        ),
    ],
)
def test_invalid_snapshots_are_ignored(data: bytes, message: str) -> None:
    with pytest.raises(CorruptIndexError, match=message):
        parse_snapshot(data)


def snapshot_of(producer_id: int, txn_first_offset: int) -> bytes:
    entry = struct.pack(">qhiqiqiq", producer_id, 0, 0, 5, 0, 0, 0, txn_first_offset)
    content = struct.pack(">i", 1) + entry
    return struct.pack(">hI", 1, crc32c(content)) + content


def test_last_stable_offset_from_snapshots(tmp_path: Path) -> None:
    """The newest valid snapshot that is not beyond the end is used, with the headers after it."""
    write_log(tmp_path, {0: [batch(0), batch(3)], 6: [batch(6), Step(7, "commit").data(9), batch(10)]})
    (tmp_path / file_name(6, "snapshot")).write_bytes(snapshot_of(8, 4))
    assert PartitionLog.open(tmp_path).last_stable_offset == 4
    (tmp_path / file_name(10, "snapshot")).write_bytes(snapshot_of(9, 5))
    (tmp_path / file_name(14, "snapshot")).write_bytes(snapshot_of(9, 1))  # the log ends before it
    assert PartitionLog.open(tmp_path).last_stable_offset == 5
    (tmp_path / file_name(10, "snapshot")).write_bytes(snapshot_of(9, 5)[:-1])
    assert PartitionLog.open(tmp_path).last_stable_offset == 4
    (tmp_path / file_name(6, "snapshot")).write_bytes(snapshot_of(7, 2))  # ended by the marker at 9
    assert PartitionLog.open(tmp_path).last_stable_offset == 13


def test_a_snapshot_above_the_high_watermark_is_ignored(tmp_path: Path) -> None:
    """It lacks the transaction that ended above the high watermark, which is undecided for a consumer."""
    data, commit = Step(7, "data", 3).data(3), Step(7, "commit").data(6)
    write_log(tmp_path, {0: [batch(0), data], 6: [commit, batch(7)], 10: [batch(10)]})
    (tmp_path / file_name(10, "snapshot")).write_bytes(snapshot_of(8, -1))
    for high_watermark, stable in ((5, 3), (6, 3), (7, 7), (13, 13)):
        live = PartitionCheckpoints(high_watermark=high_watermark, live=True)
        assert PartitionLog.open(tmp_path, checkpoints=live).last_stable_offset == stable


def test_a_snapshot_at_the_start_of_the_local_segments_is_used_if_the_log_starts_before(
    tmp_path: Path,
) -> None:
    """A broker deletes snapshots up to the log start offset (ProducerStateManager.truncateAndReload)."""
    write_log(tmp_path, {10: [batch(10), batch(13)]})
    (tmp_path / file_name(10, "snapshot")).write_bytes(snapshot_of(7, 4))
    for start, stable in ((0, 10), (9, 10), (10, 16)):
        checkpoints = PartitionCheckpoints(log_start_offset=start)
        assert PartitionLog.open(tmp_path, checkpoints=checkpoints).last_stable_offset == stable


def test_headers_are_searched_only_if_there_are_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def aborted(range: LogRange, *others: object, **named: object) -> bytes:
        searched.append(range)
        return aborted_ranges(range, *others, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "aborted_ranges", aborted)
    plain = write_log(tmp_path / "plain-0", {0: [batch(o) for o in range(0, 600, 3)]})
    batches = PartitionLog.open(plain).read(columns=["offset"], isolation_level=COMMITTED, max_rows=10)
    assert offsets(batches) == list(range(600))
    assert not searched
    # The transaction begins chunks after the start of the read, and its marker follows the end of the read.
    large = [batch(o, 3, size=reader.READ_BYTES // 4) for o in range(0, 12, 3)]
    aborted_data, abort = Step(7, "data", 3).data(12), Step(7, "abort").data(18)
    late = write_log(tmp_path / "late-0", {0: [*large, aborted_data, batch(15), abort]})
    for max_rows in (1, None):
        batches = PartitionLog.open(late).read(0, 18, ["offset"], COMMITTED, max_rows=max_rows)
        assert offsets(batches) == [*range(12), *range(15, 18)]
    assert len(searched) == 2


def test_compacted_before_the_transaction_is_read(tmp_path: Path) -> None:
    """The reader still has the old file open. The new file of the same name has no abort marker."""
    large = [batch(o, 3, size=reader.READ_BYTES // 4) for o in range(0, 12, 3)]
    aborted_data, abort = Step(7, "data", 3).data(12), Step(7, "abort").data(15)
    write_log(tmp_path, {0: [*large, aborted_data, abort], 16: [batch(16)]})
    batches = PartitionLog.open(tmp_path).read(None, None, ["offset"], COMMITTED, first_rows=1)
    seen = offsets([next(batches)])
    (tmp_path / "new").write_bytes(batch(2, 1) + b"".join(large[1:]) + batch(15, 1, reader.READ_BYTES))
    (tmp_path / "new").rename(tmp_path / file_name(0, "log"))
    assert seen + offsets(batches) == [*range(12), *range(15, 19)]


def test_leader_epochs_and_topic_id(tmp_path: Path) -> None:
    log = open_golden(golden("kafka-4.1/txn"))
    assert log.leader_epochs[0].start_offset == 0
    assert len(log.topic_id or "") == 22
    for content in ("", "0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\nx y\n", "0\n1\n1 2 3\n", "\xff"):
        (tmp_path / "leader-epoch-checkpoint").write_bytes(content.encode("latin-1"))
        assert PartitionLog.open(tmp_path).leader_epochs == ()
    for content in (
        "",
        "version: 0",
        "version: x\ntopic_id: " + "B" * 22,
        "version: 0\ntopic_id: " + "A" * 22,
    ):
        (tmp_path / "partition.metadata").write_text(content)
        assert PartitionLog.open(tmp_path).topic_id is None
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 1500\n")
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: 5TCEJCGxQ7mWJGPZdfOGpg")
    log = PartitionLog.open(tmp_path)
    assert [(e.epoch, e.start_offset) for e in log.leader_epochs] == [(0, 0), (7, 1500)]
    assert log.topic_id == "5TCEJCGxQ7mWJGPZdfOGpg"
