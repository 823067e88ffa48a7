"""Damaged objects of Aiven's layout: what is lost, and what is still read."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from native_log import CorruptRecordError, KafkaLogError, LogDir, OffsetOutOfRangeError
from tests.builders.golden_tiered import TieredPartition, tiered
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from native_log.log import PartitionLog


def flip(position: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


class Copy:
    """A copy of a fixture to damage."""

    def __init__(self, partition: TieredPartition, folder: Path) -> None:
        self.partition = partition
        self.remote = partition.remote
        self.folder = shutil.copytree(partition.folder, folder)

    def object(self, start: int, kind: str) -> Path:
        topic, number = self.partition.key
        (path,) = self.folder.glob(f"tier/**/*{topic}-*/{number}/{start:020}-*.{kind}")
        return path

    def open(self) -> PartitionLog:
        keys = self.folder / "keys" if self.remote["remote_keys"] else None
        arguments = {**self.remote, "remote": self.folder / "tier", "remote_keys": keys}
        return LogDir(self.folder / "data", **arguments).partition(*self.partition.key)

    def readable(self) -> set[int]:
        log = self.open()
        return {*offsets(log.read(columns=["offset"], mode="dropMalformed", fail_on_data_loss=False))}


@pytest.mark.parametrize(
    ("fixture", "start", "damage", "first", "last", "message"),
    [
        # The offsets are those of the batches in the damaged chunk, as facts.damage of the fixtures told.
        (
            "aiven-zstd-aes",
            188,
            flip(6282),
            258,
            282,
            "chunk 5 of 12 counts as damaged: the bytes were changed",
        ),
        ("aiven-aes", 168, flip(7545), 203, 292, "chunk 2 of 4 counts as damaged: the bytes were changed"),
        ("aiven-aes", 168, lambda data: data[:18247], 305, 342, "chunk 4 of 4 counts as damaged"),
        ("aiven-zstd", 541, flip(2937), 596, 644, "chunk 3 of 10 counts as damaged"),
        ("aiven-zstd", 261, lambda data: data[:9342], 435, 540, "chunk 7 of 10 counts as damaged"),
        ("aiven-zstd", 261, flip(7767), 435, 469, ""),
        ("aiven-plain", 159, flip(14337), 302, 336, ""),
        ("aiven-plain", 159, lambda data: data[:15555], 302, 348, "chunk 4 of 6 counts as damaged"),
    ],
)
def test_a_damaged_chunk(
    fixture: str,
    start: int,
    damage: Callable[[bytes], bytes],
    first: int,
    last: int,
    message: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    copy = Copy(tiered(fixture), tmp_path / "copy")
    path = copy.object(start, "log")
    path.write_bytes(damage(path.read_bytes()))
    log = copy.open()
    with pytest.raises(CorruptRecordError) as error:
        list(log.read())
    assert error.value.offset == first
    assert str(error.value.path) == str(path)
    lost = {row["offset"] for row in copy.partition.rows()} - copy.readable()
    assert lost == set(range(first, last + 1))
    assert message in caplog.text


@pytest.mark.parametrize("kind", ["log", "rsm-manifest"])
def test_a_missing_object_is_a_hole(kind: str, tmp_path: Path) -> None:
    copy = Copy(tiered("aiven-plain"), tmp_path / "copy")
    copy.object(159, kind).unlink()
    with pytest.raises(OffsetOutOfRangeError, match="expected offsets 159 to 348 in a segment"):
        list(copy.open().read())
    assert {row["offset"] for row in copy.partition.rows()} - copy.readable() == set(range(159, 349))


def test_an_invalid_manifest_is_a_hole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copy = Copy(tiered("aiven-plain"), tmp_path / "copy")
    copy.object(159, "rsm-manifest").write_bytes(b"{}")
    with pytest.raises(OffsetOutOfRangeError, match="expected offsets 159 to 348 in a segment"):
        list(copy.open().read())
    assert "expected a manifest, found something else" in caplog.text


def test_a_manifest_without_offsets_is_used_with_metadata_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = Copy(tiered("aiven-plain"), tmp_path / "copy")
    path = copy.object(159, "rsm-manifest")
    fields = json.loads(path.read_bytes())
    del fields["remoteLogSegmentMetadata"]
    path.write_text(json.dumps(fields))
    assert copy.readable() == {row["offset"] for row in copy.partition.rows()}
    assert f"{path}: the manifest does not say which offsets" in caplog.text
    alone = LogDir(**{**copy.remote, "remote": copy.folder / "tier"}).partition(*copy.partition.key)
    with pytest.raises(OffsetOutOfRangeError, match="expected offsets 159 to 348 in a segment"):
        list(alone.read())


def test_damaged_indexes_cost_no_records(tmp_path: Path) -> None:
    copy = Copy(tiered("aiven-zstd-aes"), tmp_path / "copy")
    path = copy.object(188, "indexes")
    path.write_bytes(flip(5)(path.read_bytes()))
    log = copy.open()
    assert offsets(log.range(200, 230).read(["offset"])) == list(range(200, 230))


def test_the_key_is_missing_or_another_one(tmp_path: Path) -> None:
    copy = Copy(tiered("aiven-one-chunk"), tmp_path / "copy")
    key = copy.folder / "keys" / "solo.private.pem"
    other = tiered("aiven-aes").folder / "keys" / "new.private.pem"
    shutil.copy(other, key)
    manifest = str(copy.object(0, "rsm-manifest"))
    for expected in (
        r"expected the private key 'solo' .*, found another one",
        r"found no solo.private.pem in",
    ):
        with pytest.raises(KafkaLogError, match=expected) as error:
            list(copy.open().read())
        assert str(error.value.path) == manifest
        key.unlink(missing_ok=True)
    copy.remote["remote_keys"] = None
    with pytest.raises(KafkaLogError, match=r"give the folder with solo.private.pem as remote.keys"):
        list(copy.open().read())


def test_keys_at_a_url_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(KafkaLogError, match="expected a local folder with private keys, found a URL"):
        LogDir(remote=tmp_path, remote_keys="s3://secret/keys")
