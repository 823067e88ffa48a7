"""Damaged objects of remote storage that brokers wrote: no record is wrong, and none is missing silently."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from native_log import CorruptRecordError, KafkaLogError, LogDir, LostOffsetsError
from native_log.log.offset_span import OffsetSpan
from native_log.log.tiers.aiven_storage import AivenStorage
from tests.builders.golden_tiered import READABLE, TieredPartition, tiered
from tests.contents import COLUMNS, as_rows, batches
from tests.effort import examples

if TYPE_CHECKING:
    from native_log.log import PartitionLog

WITH_TIER = [each for each in READABLE if each.key[0] != "d-local"]  # no segment of d-local is left there
DAMAGE = st.sampled_from(["flip", "cut", "empty", "delete", "swap", "append"])


def damage(kind: str, file: Path, others: list[Path], place: float) -> None:
    """Damage a file; `place`, from 0 to 1, says where."""
    data = bytearray(file.read_bytes())
    position = int(place * len(data))
    match kind:
        case "flip":
            data[position : position + 1] = bytes(byte ^ 4 for byte in data[position : position + 1])
        case "cut":
            del data[position:]
        case "empty":
            data.clear()
        case "swap":
            data[:] = others[int(place * len(others))].read_bytes()
        case "append":
            data += b"more"
    file.write_bytes(data)
    if kind == "delete":
        file.unlink()


def span_of(partition: TieredPartition, name: str) -> range:
    """Return the offsets of the segment to which this object belongs."""
    segments = json.loads((partition.folder / "expected.json").read_text()).get("remoteSegments", [])
    for segment in segments:
        if segment["segmentId"] in name:
            return range(segment["startOffset"], segment["endOffset"] + 1)
    start = int(name.split(".")[0])
    names = (partition.folder / "tier").rglob(f"{partition.key[0]}-{partition.key[1]}/*.log")
    return range(start, min((int(each.stem) for each in names if int(each.stem) > start), default=1 << 62))


def open_log(partition: TieredPartition) -> PartitionLog:
    return LogDir(partition.folder / "data", **partition.remote).partition(*partition.key)


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(st.data(), st.sampled_from(WITH_TIER), DAMAGE, st.floats(0, 1, exclude_max=True))
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_one_damaged_object(
    level: str, data: st.DataObject, partition: TieredPartition, kind: str, place: float
) -> None:
    assume(kind != "swap" or partition.layout != "pinterest")  # names alone do not tell where a segment ends
    expected = partition.rows(level)
    with tempfile.TemporaryDirectory() as name:
        copy = partition.copy_to(Path(name) / "copy")
        objects = copy.objects()
        file = data.draw(st.sampled_from(objects))
        note(file.name)
        damage(kind, file, [each for each in objects if each.suffix == file.suffix], place)
        lost = span_of(partition, file.name)
        try:
            rows = as_rows(open_log(copy).read(columns=COLUMNS, isolation_level=level))
            if partition.layout == "pinterest" and lost.start == 0:  # no metadata says that it was there
                rows = [row for row in expected if row["offset"] in lost and row not in rows] + rows
            assert rows == expected
        except (KafkaLogError, OSError) as error:
            note(str(error))
        try:
            log = open_log(copy)
            left = as_rows(
                log.read(
                    columns=COLUMNS, isolation_level=level, mode="dropMalformed", fail_on_data_loss=False
                )
            )
        except KafkaLogError as error:  # in every mode
            assert file.suffix == ".rsm-manifest" and "the private key" in str(error)
            return
        whole = OffsetSpan(0, log.log_end_offset)
        if level == "read_committed" and log.state.source.lost(whole):
            return  # markers may be lost with the segment, and then nothing says how their transactions ended
        assert left == [row for row in expected if row in left]
        assert [row for row in expected if row["offset"] not in lost] == [
            row for row in left if row["offset"] not in lost
        ]


def with_logs(partition: TieredPartition, path: Path) -> tuple[TieredPartition, list[Path]]:
    """Return a copy of a partition, and its `.log` objects in the order of offsets."""
    copy = partition.copy_to(path / "copy")
    return copy, [each for each in copy.objects() if each.suffix == ".log"]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("left", [0, 1, 2])
def test_an_object_that_ends_between_batches_is_damaged(left: int, alone: bool, tmp_path: Path) -> None:
    """The metadata tells how long it was."""
    copy, (file, *_) = with_logs(tiered("lts-txn", "ledger"), tmp_path)
    whole = batches(file.parent)
    file.write_bytes(b"".join(whole[:left]))
    arguments = copy.remote | ({"remote_metadata": copy.folder / "data"} if alone else {})
    paths = () if alone else (copy.folder / "data",)
    log = LogDir(*paths, **arguments).partition(*copy.key)
    position = sum(map(len, whole[:left]))
    with pytest.raises(CorruptRecordError, match=f"{file.name}, position {position}, offset"):
        list(log.read())
    rows = as_rows(log.read(columns=COLUMNS, mode="dropMalformed"))
    end = log.log_end_offset
    lost = span_of(copy, file.name)
    expected = [row for row in copy.rows() if row["offset"] < end]
    assert [row for row in rows if row["offset"] not in lost] == [
        row for row in expected if row["offset"] not in lost
    ]
    assert len(rows) < len(expected)


def test_without_metadata_an_empty_object_is_a_hole(tmp_path: Path) -> None:
    """Pinterest's uploader writes no metadata, and a broker copies no segment without batches."""
    partition = next(each for each in READABLE if each.layout == "pinterest")
    copy, (_, file, *_) = with_logs(partition, tmp_path)
    file.write_bytes(b"")
    lost = span_of(copy, file.name)
    with pytest.raises(LostOffsetsError, match=f"offsets {lost.start} to {lost.stop - 1} in a segment"):
        list(open_log(copy).read())
    rows = [row for row in copy.rows() if row["offset"] not in lost]
    assert as_rows(open_log(copy).read(columns=COLUMNS, fail_on_data_loss=False)) == rows


def test_without_metadata_a_damaged_start_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    partition = next(each for each in READABLE if each.layout == "pinterest")
    copy, (file, *_) = with_logs(partition, tmp_path)
    file.unlink()
    assert open_log(copy).log_start_offset == span_of(copy, file.name).stop
    assert "expected all objects of the segment at offset 0, found only some" in caplog.text


def test_a_chunk_of_another_manifest_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    """The sizes of chunks differ, but the object with them is the same."""
    _, (file, *_) = with_logs(tiered("aiven-zstd"), tmp_path)
    storage = AivenStorage()
    with storage.open(str(file)) as log:
        size, first = log.size_bytes, log.read(0, log.size_bytes)
    manifest = file.with_suffix(".rsm-manifest")
    fields = json.loads(manifest.read_text())
    fields["chunkIndex"]["originalFileSize"] += 1
    manifest.write_text(json.dumps(fields))
    with storage.open(str(file)) as log:
        assert log.size_bytes == size + 1
        end = size - size % fields["chunkIndex"]["originalChunkSize"]
        assert log.read(0, log.size_bytes)[:end] == first[:end]
