"""Salvage logs with random damage: what was not damaged is in the copy."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import native_log
from tests.builders.batches import batch
from tests.builders.logs import write_log
from tests.contents import batches, states
from tests.effort import examples

from .support import rows

HEADER_BYTES = 12
"""The offset and the size of a batch. No checksum covers them."""


@st.composite
def logs(draw: st.DrawFn) -> tuple[dict[int, list[bytes]], list[tuple[int, int, int, int]]]:
    """Return segments, and the bytes to change: (base offset, batch, byte in the batch, bits)."""
    segments: dict[int, list[bytes]] = {}
    offset = draw(st.sampled_from([0, 40]))
    for _ in range(draw(st.integers(1, 3))):
        content = segments[offset] = []
        for _ in range(draw(st.integers(1, 6))):
            count = draw(st.integers(1, 4))
            codec = draw(st.sampled_from(["none", "lz4"]))
            content.append(batch(offset, count, draw(st.integers(1, 300)), codec=codec))
            offset += count
    changes = []
    for _ in range(draw(st.integers(0, 4))):
        base = draw(st.sampled_from(sorted(segments)))
        index = draw(st.integers(0, len(segments[base]) - 1))
        # With a changed offset, a second damage may make the batch fit where it does not belong.
        byte = draw(st.integers(8, len(segments[base][index]) - 1))
        changes.append((base, index, byte, draw(st.integers(1, 255))))
    return segments, changes


@given(logs(), st.sampled_from([b"", bytes(50), b"garbage", bytes(5000)]))
@settings(max_examples=examples(50))
def test_batches_without_damage_are_copied_byte_for_byte(
    log: tuple[dict[int, list[bytes]], list[tuple[int, int, int, int]]], tail: bytes
) -> None:
    segments, changes = log
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        changed = {base: [bytearray(data) for data in content] for base, content in segments.items()}
        for base, index, byte, bits in changes:
            changed[base][index][byte] ^= bits
        changed[max(changed)].append(bytearray(tail))
        write_log(root / "source/t-0", changed)
        before = states(root / "source")

        report = native_log.salvage(root / "source", root / "copy", threads=1).to_pylist()

        assert states(root / "source") == before
        assert rows(root / "copy") == rows(root / "source")
        copied = batches(root / "copy/t-0")
        for base, content in segments.items():
            for index, data in enumerate(content):
                if data == changed[base][index]:
                    assert data in copied
        assert report[0]["sizeInBytes"] == sum(map(len, copied))
        lost = sum(row["sizeInBytes"] or 0 for row in report[1:])
        size = sum(file.stat().st_size for file in (root / "source/t-0").glob("*.log"))
        assert report[0]["sizeInBytes"] + lost == size
        problems = native_log.verify(root / "copy").to_pylist()
        assert [problem for problem in problems if problem["kind"] != "leader-epochs"] == []


@given(st.binary(max_size=2000))
@settings(max_examples=examples(30))
def test_any_bytes_are_accounted_for(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_log(root / "source/t-0", {7: [data]})
        report = native_log.salvage(root / "source", root / "copy", threads=1).to_pylist()
        sizes = [row["sizeInBytes"] for row in report if row["sizeInBytes"] is not None]
        assert sum(sizes) == len(data)
        assert native_log.verify(root / "copy").to_pylist() == []
        shutil.rmtree(root / "copy")
