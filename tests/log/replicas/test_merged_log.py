"""Read several copies of a log as one log."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log import CorruptRecordError, KafkaLogError, LogDir, PartitionLog
from native_log.log import PartitionCheckpoints
from native_log.log.replicas.merge import merge
from native_log.log.sources import slice_check
from native_log.log.sources.directory import DirectorySource
from native_log.log.sources.joined import JoinedSource
from native_log.policies import Gaps
from native_log.segment.files import file_name
from native_log.storage import DataFile
from tests.builders.batches import ABORT, COMMIT, T0, TRANSACTIONAL, Rec, marker, v2
from tests.builders.copies import RECORDS, Batch, batches, damage, rows, rows_of, write_copy
from tests.builders.logs import write_log

DAMAGED_BYTE = st.integers(8, 80).filter(lambda at: not 12 <= at < 16)
"""A byte of a batch, but not of its leader epoch: that has no checksum."""


def merged(*log_dirs: Path, **options: Any) -> PartitionLog:
    return LogDir(log_dirs, replicas="merge", **options).partition("t", 0)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_missing_segment_is_read_from_another_copy(tmp_path: Path, is_known: bool) -> None:
    whole = batches(0, 20)
    directory = write_copy(tmp_path / "a", whole, rolls=[15, 30])
    write_copy(tmp_path / "b", whole[:18])
    (directory / file_name(15, "log")).unlink()  # its index shows that it is missing
    if not is_known:
        (directory / file_name(15, "index")).unlink()
    expected = rows_of(whole) if is_known else rows_of([*whole[:5], *whole[10:]])
    assert rows(merged(tmp_path / "a", tmp_path / "b").read()) == expected


def test_gaps_of_a_compacted_topic_are_not_filled(tmp_path: Path) -> None:
    whole = batches(0, 20)
    compacted = [*whole[:5], *whole[9:]]
    paths = [write_copy(tmp_path / name, log) for name, log in (("a", compacted), ("b", whole))]
    logs = [PartitionLog.open(path) for path in paths]
    for gaps, expected in ((Gaps.COMPACTED, compacted), (Gaps.UNKNOWN, compacted), (Gaps.UNEXPLAINED, whole)):
        source = merge([log.state for log in logs], gaps)
        assert rows(PartitionLog(source.open()).read()) == rows_of(expected)


@pytest.mark.parametrize("cut", [slice(5, 9), slice(2, 3), slice(12, 13)])
@pytest.mark.parametrize("gaps", Gaps)
def test_a_gap_that_another_copy_fills_is_a_warning_if_the_policy_is_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, gaps: Gaps, cut: slice
) -> None:
    whole = batches(0, 20)
    leader = [each for each in whole if each not in whole[cut]]
    paths = [write_copy(tmp_path / name, log) for name, log in (("a", leader), ("b", whole))]
    logs = [PartitionLog.open(path) for path in paths]
    source = merge([log.state for log in logs], gaps)
    caplog.clear()
    rows(PartitionLog(source.open()).read())
    found = [message for message in caplog.messages if "are not read" in message]
    assert len(found) == (gaps is Gaps.UNKNOWN)
    if found:
        first, last = rows_of(whole[cut])[0][0], rows_of(whole[cut])[-1][0]
        assert found[0].startswith(
            f"{paths[0]}: offsets {first} to {last} have no records, but {paths[1]} has"
        )


def test_equal_gaps_are_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compacted = batches(0, 300)[::2]
    for name in ("a", "b"):
        write_copy(tmp_path / name, compacted, rolls=[60])
    assert rows(merged(tmp_path / "a", tmp_path / "b").read()) == rows_of(compacted)
    assert not [message for message in caplog.messages if "are not read" in message]


def test_neighbors_that_are_damaged_in_different_copies_of_a_compacted_log(tmp_path: Path) -> None:
    """The offsets between them are in both damaged ranges, but no batch has them."""
    whole = batches(0, 30)[::3]
    paths = [write_copy(tmp_path / name, whole, rolls=[60]) for name in ("a", "b")]
    for index in (3, 8):
        damage(paths[0], whole[index])
        damage(paths[1], whole[index - 1])
        damage(paths[1], whole[index + 1])
    log = merged(tmp_path / "a", tmp_path / "b")
    assert rows(log.read()) == rows_of(whole)
    damage(paths[1], whole[3])
    with pytest.raises(CorruptRecordError):
        rows(log.reopen().read())


def test_a_divergent_tail_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shared = batches(0, 8)
    write_copy(tmp_path / "a", [*shared, *batches(8, 20, tag="lost")])
    leader = [*shared, *batches(8, 11, epoch=1)]
    write_copy(tmp_path / "b", leader)
    log = merged(tmp_path / "a", tmp_path / "b")
    assert isinstance(log.state.source, JoinedSource)
    assert rows(log.read()) == rows_of(leader)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 33, 33)
    assert f"{tmp_path / 'a' / 't-0'}: offsets 24 to 59 are left out" in caplog.text


def test_damaged_batches_are_read_from_another_copy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = batches(0, 20)
    first = write_copy(tmp_path / "a", whole, rolls=[30])
    second = write_copy(tmp_path / "b", whole[:18], rolls=[21])
    damage(first, whole[4])
    damage(first, whole[9], at=8)  # the size of the last batch of a segment
    damage(second, whole[12])
    log = merged(tmp_path / "a", tmp_path / "b")
    assert rows(log.read()) == rows_of(whole)
    assert caplog.text.count("damaged bytes are read from other copies") == 1  # for each read
    assert f"{first}: damaged bytes are read from other copies; the first range is {first}" in caplog.text
    assert rows(log.read(13, 31)) == rows_of(whole)[13:31]


def test_a_batch_that_is_damaged_in_all_copies_is_an_error_with_its_place(tmp_path: Path) -> None:
    whole = batches(0, 20)
    directories = [write_copy(tmp_path / name, whole) for name in "ab"]
    places = [damage(directory, whole[7]) for directory in directories]
    damage(directories[0], whole[9])
    log = merged(tmp_path / "a", tmp_path / "b")
    with pytest.raises(CorruptRecordError) as raised:
        log.read().read_all()
    assert (Path(str(raised.value.path)), raised.value.position) == places[0]
    assert raised.value.offset == 21
    reported: list[Any] = []
    kept = rows(log.read(mode="dropMalformed", on_damage=reported.append))
    assert kept == rows_of([*whole[:7], *whole[8:]])
    assert [(each.offset, each.next_offset) for each in reported] == [(21, 24)]


def test_records_before_damage_are_read_from_another_copy_before_the_error(tmp_path: Path) -> None:
    whole = batches(0, 20)
    first, second = (write_copy(tmp_path / name, whole) for name in "ab")
    for directory, number in ((first, 7), (first, 8), (second, 8)):
        damage(directory, whole[number])
    read: list[Any] = []
    with pytest.raises(CorruptRecordError):
        for batch in merged(tmp_path / "a", tmp_path / "b").range().read():
            read += rows([batch])
    assert read == rows_of(whole[:8])


@pytest.mark.parametrize("rolls", [(), (57,)])
@pytest.mark.parametrize("at", [8, 70])  # the size, a record
def test_damage_at_the_end_of_all_copies_is_an_error(tmp_path: Path, at: int, rolls: tuple[int, ...]) -> None:
    whole = batches(0, 20)
    for name, end in (("a", 19), ("b", 20), ("c", 20)):
        directory = write_copy(tmp_path / name, whole[:end], rolls=rolls, high_watermark=57)
        (tmp_path / name / ".kafka_cleanshutdown").touch()  # so no crash can have torn the last batch
        if end == 20:
            damage(directory, whole[19], at)
    log = merged(*(tmp_path / name for name in "abc"))
    assert log.log_end_offset == 57
    assert rows(log.read(end_offset=56)) == rows_of(whole)[:56]
    with pytest.raises(CorruptRecordError):
        log.read().read_all()
    assert rows(log.read(mode="dropMalformed")) == rows_of(whole[:19])
    committed = merged(*(tmp_path / name for name in "abc"), high_watermark="checkpoint")
    assert rows(committed.read()) == rows_of(whole[:19])


def test_bytes_after_the_end_are_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = batches(0, 20)
    directory = write_copy(tmp_path / "a", whole)
    damage(directory, whole[19])
    write_copy(tmp_path / "b", whole[:18])
    assert rows(merged(tmp_path / "a", tmp_path / "b").read()) == rows_of(whole[:19])
    assert f"{directory}: its last 175 bytes, after offset 57, are ignored" in caplog.text


def test_damage_is_reported_although_compaction_has_removed_the_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = batches(0, 20)
    damage(write_copy(tmp_path / "a", whole), whole[5])
    remaining = [*whole[:5], *whole[6:]]
    write_copy(tmp_path / "b", remaining)
    assert rows(merged(tmp_path / "a", tmp_path / "b").read()) == rows_of(remaining)
    assert "damaged bytes are read from other copies" in caplog.text


def test_a_copy_without_its_first_segment_supplies_nothing_of_it(tmp_path: Path) -> None:
    whole = batches(0, 20)
    first, second = (write_copy(tmp_path / name, whole, rolls=[30]) for name in "ab")
    damage(first, whole[5])
    located = merged(tmp_path / "a", tmp_path / "b").range()
    for path in second.glob(f"{0:020d}.*"):
        path.unlink()
    with pytest.raises(CorruptRecordError):
        list(located.read())


def test_records_that_only_an_older_snapshot_has_are_read(tmp_path: Path) -> None:
    whole = batches(0, 20)
    write_copy(tmp_path / "snapshot", whole[:12], rolls=[15])
    write_copy(tmp_path / "now", whole[8:], rolls=[45])
    log = merged(tmp_path / "snapshot", tmp_path / "now")
    assert rows(log.read()) == rows_of(whole)
    assert log.offset_for_timestamp(T0 + 10) == 10
    assert log.offset_for_timestamp(T0 + 50) == 50
    assert log.offset_for_timestamp(T0 + 60) is None


def test_deleted_records_are_not_read(tmp_path: Path) -> None:
    whole = batches(0, 20)
    write_copy(tmp_path / "snapshot", whole[:12])
    write_copy(tmp_path / "now", whole, log_start_offset=22)
    log = merged(tmp_path / "snapshot", tmp_path / "now")
    assert log.log_start_offset == 22
    assert rows(log.read()) == rows_of(whole)[22:]


def test_a_log_whose_first_records_are_in_remote_storage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        write_copy(tmp_path / name, batches(5, 20), log_start_offset=0)
    log = merged(tmp_path / "a", tmp_path / "b")
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 15)
    assert rows(log.read()) == rows_of(batches(5, 20))
    assert "is read only in part: the log starts at offset 0" in caplog.text


def test_a_copy_that_does_not_connect_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = batches(0, 20)
    write_copy(tmp_path / "snapshot", whole[:5])
    write_copy(tmp_path / "now", whole[8:])
    log = merged(tmp_path / "snapshot", tmp_path / "now")
    assert rows(log.read()) == rows_of(whole[8:])
    assert "no copy has those between them and 24" in caplog.text


def test_the_high_watermark_of_any_copy_counts(tmp_path: Path) -> None:
    whole = batches(0, 20)
    write_copy(tmp_path / "a", whole, high_watermark=30)
    write_copy(tmp_path / "b", whole[:15], high_watermark=42)
    assert merged(tmp_path / "a", tmp_path / "b").high_watermark == 60
    log = merged(tmp_path / "a", tmp_path / "b", high_watermark="checkpoint")
    assert log.high_watermark == 42
    assert rows(log.read()) == rows_of(whole)[:42]


def test_aborted_transactions_are_found_in_the_merged_log(tmp_path: Path) -> None:
    def transaction(offset: int, producer: int, epoch: int = 0) -> bytes:
        values = [Rec(b"k", str(offset + i).encode()) for i in range(RECORDS)]
        return v2(values, offset, attributes=TRANSACTIONAL, producer_id=producer, leader_epoch=epoch)

    def end(offset: int, producer: int, kind: int, epoch: int = 0) -> bytes:
        data = marker(offset, producer, kind)
        return data[:12] + epoch.to_bytes(4, "big") + data[16:]  # no checksum covers the leader epoch

    shared = [transaction(0, 1), transaction(3, 2), Batch(6).data]
    ending = [end(9, 1, ABORT, 1), end(10, 2, COMMIT, 1), Batch(11, 1).data]
    directory = write_log(tmp_path / "a" / "t-0", {0: [*shared, *ending]})
    # The divergent end of the other copy would decide otherwise. It also has the marker undamaged.
    write_log(tmp_path / "b" / "t-0", {0: [*shared, end(9, 2, ABORT), end(10, 1, COMMIT)]})
    write_log(tmp_path / "c" / "t-0", {0: [*shared, *ending[:1]]})
    log = merged(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    expected = [*range(3, 9), *range(11, 14)]
    for _ in range(2):
        for size in (1, 10_000):
            located = log.range(isolation_level="read_committed")
            parts = [pickle.loads(pickle.dumps(part)) for part in located.split(size)]
            offsets = [o for part in parts for each in part.read() for o in each.column("offset").to_pylist()]
            assert offsets == expected
        states = [row["state"] for row in log.transactions().to_pylist()]
        assert states == ["aborted", "committed"]
        path = next(directory.glob("*.log"))  # now with a damaged marker
        data = bytearray(path.read_bytes())
        data[data.find(ending[0]) + 45] ^= 1
        path.write_bytes(data)
        log = merged(tmp_path / "a", tmp_path / "b", tmp_path / "c")


@pytest.mark.parametrize("wrong", [0, 5, 19])
def test_a_copy_does_not_lead_because_of_a_wrong_leader_epoch(tmp_path: Path, wrong: int) -> None:
    whole = batches(0, 20)
    directory = write_copy(tmp_path / "a", whole)
    write_copy(tmp_path / "b", [*whole, *batches(20, 22)])
    damage(directory, whole[wrong], at=13)
    assert rows(merged(tmp_path / "a", tmp_path / "b").read()) == rows_of(batches(0, 22))


def test_a_merged_log_is_not_appended_to(tmp_path: Path) -> None:
    for name in "ab":
        write_copy(tmp_path / name, batches(0, 3))
    log = merged(tmp_path / "a", tmp_path / "b")
    with pytest.raises(KafkaLogError, match="merged from several copies"):
        log.append(None)  # type: ignore[arg-type]


def test_copies_of_another_topic_are_rejected(tmp_path: Path) -> None:
    for name, topic_id in (("a", "AAAAAAAAAAAAAAAAAAAAAQ"), ("b", "AAAAAAAAAAAAAAAAAAAAAg")):
        directory = write_copy(tmp_path / name, batches(0, 3))
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    with pytest.raises(KafkaLogError, match="expected copies of one topic"):
        merged(tmp_path / "a", tmp_path / "b")


def test_a_partition_with_one_copy_is_opened_as_usual(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", batches(0, 3))
    assert isinstance(merged(tmp_path / "a").state.source, DirectorySource)
    assert isinstance(merged(tmp_path / "a", tmp_path / "a").state.source, DirectorySource)


def test_an_unknown_value_of_replicas_is_rejected(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", batches(0, 3))
    with pytest.raises(ValueError, match="expected longest or merge"):
        LogDir(tmp_path / "a", replicas="join")  # type: ignore[arg-type]


def test_opening_a_merged_log_reads_at_most_the_last_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = batches(0, 2000)
    rolls = [1500, 3000, 4500]
    directories = [write_copy(tmp_path / name, whole, rolls=rolls) for name in "ab"]
    damage(directories[0], whole[-1])  # the last segment is searched for the end
    for batch in (whole[100], whole[900]):
        damage(directories[0], batch)
    read: dict[str, int] = {}

    def count(file: DataFile, buffer: memoryview, position: int) -> None:
        read[file.path] = read.get(file.path, 0) + len(buffer)
        return read_into(file, buffer, position)

    read_into = DataFile.read_into
    monkeypatch.setattr(DataFile, "read_into", count)
    log = merged(tmp_path / "a", tmp_path / "b")
    assert log.log_end_offset == 6000
    earlier = [directory / file_name(base, "log") for directory in directories for base in (0, *rolls[:2])]
    assert min(path.stat().st_size for path in earlier) > 80_000
    assert sum(read.get(str(path), 0) for path in earlier) < 40_000
    read.clear()
    assert rows(log.read(1600, 1610)) == rows_of(whole)[1600:1610]
    assert {Path(path).name for path in read if path.endswith(".log")} == {file_name(1500, "log")}


def test_damage_is_found_by_a_reader_that_was_planned_before(tmp_path: Path) -> None:
    whole = batches(0, 40)
    directories = [write_copy(tmp_path / name, whole, rolls=[60]) for name in "ab"]
    located = merged(tmp_path / "a", tmp_path / "b").range()
    parts = pickle.loads(pickle.dumps([*located.split(1000), *located.split_at([7, 22, 23, 64])]))
    assert len(parts) > 8
    for batch in (whole[0], whole[7], whole[8], whole[19], whole[21], whole[39]):
        damage(directories[0], batch)
    damage(directories[1], whole[20])
    for part in parts:
        assert rows(part.read()) == rows_of(whole)[part.start_offset : part.end_offset]
    assert [o for b in located.latest(["offset"]) for o in b.column("offset").to_pylist()] == [119]


def test_damage_before_a_batch_that_is_cut_belongs_to_one_part(tmp_path: Path) -> None:
    whole = batches(0, 20)
    directories = [write_copy(tmp_path / name, whole) for name in "ab"]
    damage(directories[0], whole[3])
    damage(directories[0], whole[14])
    parts = merged(tmp_path / "a", tmp_path / "b").range(0, 46).split(1)
    assert [row for part in parts for row in rows(part.read())] == rows_of(whole)[:46]


def read_in_parts(source: JoinedSource, data: st.DataObject) -> tuple[list[Any], list[Any]]:
    """Return the rows of a whole log, and those of its parts."""
    log = PartitionLog(source.open())
    located = log.range()
    offsets = st.integers(log.log_start_offset, log.log_end_offset)
    parts = [
        part
        for split in located.split(data.draw(st.integers(1, 2000)))
        for part in split.split_at(data.draw(st.lists(offsets, max_size=4)))
    ]
    return rows(log.read(mode="dropMalformed")), [
        row for part in parts for row in rows(part.read(mode="dropMalformed"))
    ]


COPIES = st.lists(st.sets(st.integers(0, 11)), min_size=2, max_size=3)
"""The numbers of the batches that each copy lacks."""


@given(COPIES, st.data())
def test_only_batches_that_are_damaged_or_missing_in_all_copies_are_lost(
    damaged: list[set[int]], data: st.DataObject
) -> None:
    whole = batches(0, 12)
    with tempfile.TemporaryDirectory() as temporary:
        logs = []
        for name, numbers in enumerate(damaged):
            rolls = sorted(data.draw(st.sets(st.integers(1, 11), max_size=3)))
            directory = write_copy(
                Path(temporary, str(name)), whole, rolls=[whole[number].offset for number in rolls]
            )
            for number in numbers:
                damage(directory, whole[number], data.draw(DAMAGED_BYTE))
            for first, following in pairwise(rolls):
                if data.draw(st.booleans()):
                    (directory / file_name(whole[first].offset, "log")).unlink()
                    numbers |= {*range(first, following)}
            logs.append(PartitionLog.open(directory))
        source = merge([log.state for log in logs], data.draw(st.sampled_from(Gaps)))
        with patch.object(slice_check, "CHECKED_BYTES", data.draw(st.sampled_from([1, 1 << 20]))):
            read, in_parts = read_in_parts(source, data)
    lost = set.intersection(*damaged)
    assert read == in_parts == rows_of(batch for number, batch in enumerate(whole) if number not in lost)


@given(COPIES, st.data())
def test_gaps_of_a_topic_that_is_not_compacted_are_filled(
    missing: list[set[int]], data: st.DataObject
) -> None:
    whole = batches(0, 12)
    with tempfile.TemporaryDirectory() as temporary:
        logs = []
        for name, numbers in enumerate(missing):
            own = [batch for number, batch in enumerate(whole) if number - 1 not in numbers]  # has the first
            rolls = [batch.offset for batch in data.draw(st.lists(st.sampled_from(own), max_size=2))]
            directory = write_copy(Path(temporary, str(name)), own, rolls=rolls)
            # A last batch after a gap is believed, because the log has reached it.
            checkpoints = PartitionCheckpoints(high_watermark=own[-1].offset + RECORDS)
            logs.append(PartitionLog.open(directory, checkpoints=checkpoints))
        source = merge([log.state for log in logs], Gaps.UNEXPLAINED)
        read, in_parts = read_in_parts(source, data)
    lost = set.intersection(*missing)
    assert read == in_parts == rows_of(b for number, b in enumerate(whole) if number - 1 not in lost)


@given(st.data())
def test_reads_of_a_merged_log_are_those_of_the_whole_log(data: st.DataObject) -> None:
    """Each batch is undamaged in one copy at least. Copies begin, end and roll at different offsets."""
    count = data.draw(st.integers(1, 25))
    epoch_starts = sorted(data.draw(st.lists(st.integers(0, count), max_size=3)))
    whole = [
        Batch(number * RECORDS, sum(start <= number for start in epoch_starts)) for number in range(count)
    ]
    copies = data.draw(st.integers(2, 4))
    owners = [data.draw(st.integers(0, copies - 1)) for _ in whole]
    with tempfile.TemporaryDirectory() as temporary:
        paths = [Path(temporary, str(copy)) for copy in range(copies)]
        for copy, path in enumerate(paths):
            own = [number for number, owner in enumerate(owners) if owner == copy] or [0]
            first = data.draw(st.integers(0, own[0])) if copy else 0
            last = data.draw(st.integers(own[-1] + 1, count)) if copy else count
            rolls = data.draw(st.lists(st.sampled_from(whole[first:last]), max_size=3))
            # All are committed: copies without a common epoch are merged only up to the high watermark.
            directory = write_copy(
                path,
                whole[first:last],
                rolls=[batch.offset for batch in rolls],
                high_watermark=last * RECORDS,
            )
            wrong = data.draw(st.sets(st.integers(first, last - 1), max_size=5))
            for number in wrong - set(own):
                damage(directory, whole[number], data.draw(DAMAGED_BYTE))
        log = merged(*data.draw(st.permutations(paths)))
        expected = rows_of(whole)
        assert rows(log.read()) == expected
        end = count * RECORDS
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, end)] * 2)))
        assert rows(log.read(start, stop)) == expected[start:stop]
        located = log.range(start, stop)
        for parts in (
            located.split(data.draw(st.integers(1, 2000))),
            located.split_at(data.draw(st.lists(st.integers(0, end), max_size=5))),
        ):
            assert [rows(part.read()) for part in parts] == [
                expected[part.start_offset : part.end_offset] for part in parts
            ]
            assert [part.end_offset for part in parts[:-1]] == [part.start_offset for part in parts[1:]]
        time = data.draw(st.integers(0, end))
        assert log.offset_for_timestamp(T0 + time) == (time if time < end else None)
        headers = [
            offset for each in log.batches(check_crcs=True) for offset in each["baseOffset"].to_pylist()
        ]
        assert headers == [batch.offset for batch in whole]
        shutil.rmtree(paths[0])


def test_filters_of_merged_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter must not make offsets that it skips look lost, nor damage that it skips be read elsewhere."""
    monkeypatch.setattr("native_log.log.reading.log_scan.PART_BYTES", 400)
    monkeypatch.setattr("native_log.log.reading.row_selection._SEEK_BYTES", 1)
    whole = batches(0, 20)
    first = write_copy(tmp_path / "a", whole, rolls=[30])
    damage(first, whole[4])
    write_copy(tmp_path / "b", whole[:18], rolls=[21])
    log = merged(tmp_path / "a", tmp_path / "b")
    everything = log.read().read_all()
    middle = everything.slice(everything.num_rows // 2, 1).to_pylist()[0]
    field = pc.field
    for filter in (
        field("offset") >= middle["offset"],
        field("offset") < middle["offset"],
        field("timestamp") >= pa.scalar(middle["timestamp"], pa.timestamp("us", "UTC")),
        field("key") == middle["key"],
    ):
        expected = everything.filter(filter)
        assert log.read(filter=filter).read_all().equals(expected)
        scan = replace(log.scan(filter=filter), threads=2)
        assert scan.to_table().equals(expected)
        assert scan.count_rows() == expected.num_rows
    assert log.scan().count_rows() == everything.num_rows
