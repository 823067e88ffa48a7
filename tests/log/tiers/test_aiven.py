"""The names, manifests and transforms of Aiven's tiered storage plugin."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from native_log.log.offset_span import OffsetSpan
from native_log.log.tiers.aiven_tier import AivenTier
from native_log.log.tiers.layouts import aiven
from native_log.log.tiers.layouts.aiven import ManifestError, ObjectPlace, parse_chunk_sizes, parse_manifest
from native_log.log.tiers.layouts.names import ObjectName, PartitionName
from native_log.log.tiers.remote_segment import RemoteSegment
from native_log.messages.reading import MessageError
from native_log.storage import Folder
from tests.builders.golden_tiered import GOLDEN_TIERED

if TYPE_CHECKING:
    from pathlib import Path

ID = "rW5ID8jhTRmbAQlqX279mw"
SEGMENT = "lL79he8JSDutUB4lqq3A1Q"
FIXED = {
    "version": "1",
    "chunkIndex": {
        "type": "fixed",
        "originalChunkSize": 5000,
        "originalFileSize": 9135,
        "transformedChunkSize": 5028,
        "finalTransformedChunkSize": 4163,
    },
    "segmentIndexes": {"offset": {"position": 0, "size": 44}, "transaction": None},
    "compression": False,
    "encryption": {"dataKey": "new:AAEC", "aad": "Aw=="},
    "remoteLogSegmentMetadata": {
        "remoteLogSegmentId": {"id": SEGMENT},
        "startOffset": 1386,
        "endOffset": 1508,
        "eventTimestampMs": 7,
        "segmentLeaderEpochs": {"2": 1500, "0": 1386},
    },
}
MANIFESTS = sorted(GOLDEN_TIERED.glob("aiven-*/tier/**/*.rsm-manifest"))


def manifest(**changes: Any) -> bytes:
    return json.dumps({**FIXED, **changes}).encode()


def chunk_index(**changes: Any) -> bytes:
    return manifest(chunkIndex={**FIXED["chunkIndex"], **changes})  # type: ignore[dict-item]


def test_names() -> None:
    assert aiven.parse_partition(f"or-ders-3-{ID}", "12") == PartitionName("or-ders-3", 12, ID)
    assert aiven.parse_partition(f"or-ders-3-{ID}", "x") is None
    assert aiven.parse_partition("or-ders-3", "0") is None
    assert aiven.parse_object(f"00000000000000000642-{SEGMENT}.rsm-manifest") == ObjectName(
        642, SEGMENT, "rsm-manifest"
    )
    assert aiven.parse_object(f"00000000000000000642-{SEGMENT}.index") is None


def test_a_manifest_with_chunks_of_one_size() -> None:
    parsed = parse_manifest(manifest(unknown=[1]))
    assert parsed.chunks.positions == (0, 5028, 9191)
    assert [parsed.chunks.chunk_size(index) for index in range(2)] == [5000, 4135]
    assert parsed.indexes == {"offset": (0, 44)}
    assert parsed.encryption is not None
    assert (parsed.encryption.key_id, parsed.encryption.data_key) == ("new", b"\0\1\2")
    assert parsed.segment is not None
    assert (parsed.segment.id, parsed.segment.span.start_offset, parsed.segment.span.end_offset) == (
        *(SEGMENT, 1386, 1509),
    )
    assert [(each.epoch, each.start_offset) for each in parsed.segment.leader_epochs] == [
        (0, 1386),
        (2, 1500),
    ]


def test_a_manifest_of_another_version_still_says_how_to_read_the_segment() -> None:
    parsed = parse_manifest(manifest(remoteLogSegmentMetadata={"id": 3}, encryption=None))
    assert parsed.segment is None
    assert parsed.encryption is None


def test_an_empty_segment() -> None:
    assert parse_manifest(chunk_index(originalFileSize=0)).chunks.positions == (0,)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        manifest(version="2"),
        manifest(encryption={"dataKey": "AAEC", "aad": "Aw=="}),
        manifest(segmentIndexes={"offset": {"position": 0}}),
        chunk_index(type="iceberg"),
        chunk_index(originalChunkSize=0),
        chunk_index(originalFileSize=-1),
        chunk_index(originalFileSize=2**40, originalChunkSize=2**39),
        chunk_index(originalFileSize=2**31 - 1, originalChunkSize=1),
        manifest(segmentIndexes={"offset": {"position": -1, "size": 2}}),
        chunk_index(finalTransformedChunkSize=-1),
        chunk_index(type="variable", transformedChunks="AAAA"),
        chunk_index(
            type="variable",
            transformedChunks=base64.b64encode(zstandard.compress(b"\0\0\0\1\0\0\0\7")).decode(),
        ),
    ],
)
def test_invalid_manifests(data: bytes) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(data)


@pytest.mark.parametrize(
    ("data", "sizes"),
    [
        ("00000000", []),
        ("00000001 00000007", [7]),
        ("00000002 00000100 00 00000009", [256, 9]),
        ("00000003 00000100 01 0005 00000009", [256, 261, 9]),
        ("00000003 00000100 02 00010203 00000009", [257, 771, 9]),
    ],
)
def test_sizes_of_chunks(data: str, sizes: list[int]) -> None:
    assert parse_chunk_sizes(zstandard.compress(bytes.fromhex(data))) == sizes


@pytest.mark.parametrize("data", ["00000003 00000100 01 0005 000009", "00000009 00000100 04 00 00000000"])
def test_invalid_sizes_of_chunks(data: str) -> None:
    with pytest.raises(ValueError, match="chunks"):
        parse_chunk_sizes(zstandard.compress(bytes.fromhex(data)))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_manifests_that_the_plugin_wrote(path: Any) -> None:
    parsed = parse_manifest(path.read_bytes())
    assert parsed.chunks.positions[-1] == path.with_suffix(".log").stat().st_size
    assert parsed.segment is not None
    assert path.name.startswith(f"{parsed.segment.span.start_offset:020}-{parsed.segment.id}.")


def tagged(*fields: tuple[int, bytes]) -> bytes:
    return bytes([len(fields)]) + b"".join(bytes([tag, len(data)]) + data for tag, data in fields)


def test_the_place_of_objects_in_custom_metadata() -> None:
    size = (0, bytes.fromhex("caf84a"))
    both = tagged(size, (1, b"\x09pre/fix-"), (2, b"\x04t/0"), (9, b"new"))
    assert aiven.parse_custom_metadata(both) == ObjectPlace("pre/fix-", "t/0")
    assert aiven.parse_custom_metadata(tagged(size, (1, b"\x01"), (2, b"\0"))) == ObjectPlace("", None)
    assert aiven.parse_custom_metadata(tagged(size)) == ObjectPlace(None, None)
    for length in range(len(both)):
        with pytest.raises(MessageError):
            aiven.parse_custom_metadata(both[:length])


@pytest.mark.parametrize("key", ["../t/0/{name}", "/t/0/{name}", "t/0/x{name}", "t/0/", "t//{name}"])
def test_a_recorded_place_outside_the_folder_is_not_used(
    tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    partition = PartitionName("t", 0, ID)
    (tmp_path / "root" / f"t-{ID}" / "0").mkdir(parents=True)
    text = key.format(name=f"{0:020}-{SEGMENT}").encode()
    named = RemoteSegment(
        SEGMENT, OffsetSpan(0, 9), (), custom_metadata=tagged((2, bytes([len(text) + 1]) + text))
    )
    tier = AivenTier.find(Folder(str(tmp_path / "root")), "", None)
    assert not tier.segments(partition, [named]).logs
    assert "expected the name of its objects" in caplog.text


def test_a_recorded_place_that_is_gone_has_no_segment(tmp_path: Path) -> None:
    (tmp_path / f"t-{ID}" / "0").mkdir(parents=True)
    named = RemoteSegment(SEGMENT, OffsetSpan(0, 9), (), custom_metadata=tagged((1, b"\x04old")))
    tier = AivenTier.find(Folder(str(tmp_path)), "", None)
    assert not tier.segments(PartitionName("t", 0, ID), [named]).logs
