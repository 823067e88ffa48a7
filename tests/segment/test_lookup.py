"""Lookups return the same results for any content of the index files."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.segment.lookup import OffsetLocation, SegmentLookup
from native_log.segment.segment import LogSegment
from native_log.storage import Folder, Window
from tests.builders.batches import T0, batch
from tests.builders.legacy import message, wrapper

if TYPE_CHECKING:
    from pathlib import Path

BASE = 1000


class Segment(NamedTuple):
    segment: LogSegment
    batches: list[tuple[int, int, int, int]]
    """(position, size, first offset, last offset)"""


def build(directory: Path) -> Segment:
    """Write thirty batches of the three formats, with gaps between their offsets."""
    data, batches, offset = b"", [], BASE + 5
    for i in range(30):
        count = 1 + i % 4
        if i % 7 == 5:
            count = 1
            entry = message(1, offset, timestamp=T0 + i)
        elif i % 7 == 6:
            inner = [message(1, j, timestamp=T0 + i) for j in range(count)]
            entry = wrapper(1, inner, offset + count - 1, "gzip", timestamp=T0 + i)
        else:
            entry = batch(offset, count, size=10 * (i % 5) + 5, max_timestamp=T0 + i)
        batches.append((len(data), len(entry), offset, offset + count - 1))
        data += entry
        offset += count + (3 if i % 5 == 4 else 0)
    log = directory / "1000.log"
    log.write_bytes(data)
    segment = LogSegment(
        *(Folder(str(directory)), BASE, log.name, len(data), log.stat().st_ino, 0),
        *("1000.index", "1000.timeindex", None),
    )
    return Segment(segment, batches)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Segment:
    return build(tmp_path_factory.mktemp("lookup"))


def expected_location(built: Segment, offset: int, known: int | None = None) -> OffsetLocation:
    """Return where an offset is.

    A wrapper has no first offset in its header. So it counts as having lower offsets, unless the batch before
    it ends where it begins. `known` is the end of that batch, if a search does not know it exactly.
    """
    next_offset = BASE
    for position, size, first, last in built.batches:
        if last >= offset:
            if (position, size) in wrappers(built):
                first = next_offset if known is None else known
            if first >= offset:
                return OffsetLocation(position, position, False, next_offset, next_offset)
            return OffsetLocation(position, position + size, True, next_offset, last + 1)
        next_offset = last + 1
    return OffsetLocation(built.segment.size_bytes, built.segment.size_bytes, False, next_offset, next_offset)


def wrappers(built: Segment) -> set[tuple[int, int]]:
    return {(p, s) for i, (p, s, _, _) in enumerate(built.batches) if i % 7 == 6}


def entries(built: Segment, generation: str) -> bytes:
    """Return the index entries of brokers of one generation, for every third batch."""
    out = b""
    for i in range(3, 30, 3):
        position, _, first, last = built.batches[i]
        if generation == "first offset of the append":  # up to 1.1
            offset = first
        elif (
            generation == "last offset of the append"
        ):  # to 4.0, when a follower appends three batches at once
            offset = built.batches[min(i + 2, 29)][3]
        else:
            offset = last
        out += struct.pack(">ii", offset - BASE, position)
    return out


GENERATIONS = ["first offset of the append", "last offset of the append", "last offset of the batch"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_index_entries_of_all_generations(built: Segment, generation: str) -> None:
    directory = built.segment.directory
    with open(f"{directory}/1000.index", "wb") as out:
        out.write(entries(built, generation) + bytes(4000))
    with SegmentLookup(built.segment, built.segment.size_bytes, Window()) as lookup:
        for offset in range(BASE, built.batches[-1][3] + 3):
            assert lookup.find_offset(offset) == expected_location(built, offset)


@given(st.data())
def test_an_index_with_wrong_entries(built: Segment, data: st.DataObject) -> None:
    """The batches are read before an entry is used."""
    numbers = st.one_of(st.integers(0, 150), st.sampled_from([p for p, _, _, _ in built.batches]))
    wrong = data.draw(st.lists(st.tuples(numbers, numbers), max_size=12))
    if data.draw(st.booleans()):
        wrong.sort()
    with open(f"{built.segment.directory}/1000.index", "wb") as out:
        out.write(b"".join(struct.pack(">ii", *entry) for entry in wrong))
    offset = data.draw(st.integers(BASE, built.batches[-1][3] + 3))
    with SegmentLookup(built.segment, built.segment.size_bytes, Window()) as lookup:
        location = lookup.find_offset(offset)
    expected = expected_location(built, offset, location.next_offset)
    assert BASE <= location.next_offset <= expected.next_offset  # the previous batch may not have been read
    known = {"next_offset": expected.next_offset, "end_next_offset": expected.end_next_offset}
    assert replace(location, **known) == expected


def test_damage_before_a_wrapper(built: Segment, tmp_path: Path) -> None:
    """A wrapper does not tell its first offset, so the damaged bytes before it may have held lower ones."""
    directory = tmp_path / "damaged"
    shutil.copytree(built.segment.directory, directory)
    position, size, first, last = built.batches[12]
    wrapper_position, wrapper_size, _, wrapper_last = built.batches[13]
    assert (wrapper_position, wrapper_size) in wrappers(built)
    log = directory / "1000.log"
    data = bytearray(log.read_bytes())
    data[position + size - 1] ^= 1
    log.write_bytes(data)
    segment = replace(built.segment, folder=Folder(str(directory)), inode=log.stat().st_ino)
    with SegmentLookup(segment, segment.size_bytes, Window()) as lookup:
        for offset in range(first + 1, wrapper_last + 1):
            location = lookup.find_offset(offset)
            assert (location.position, location.end_position) == (position, wrapper_position + wrapper_size)
            assert location.next_offset == location.end_next_offset <= first <= last


@given(st.data())
def test_boundaries(built: Segment, data: st.DataObject) -> None:
    (generation,) = data.draw(st.permutations(GENERATIONS).map(lambda g: g[:1]))
    with open(f"{built.segment.directory}/1000.index", "wb") as out:
        out.write(entries(built, generation))
    position = data.draw(st.integers(0, built.segment.size_bytes))
    with SegmentLookup(built.segment, built.segment.size_bytes, Window()) as lookup:
        boundary = lookup.find_boundary(position)
    following = [b for b in built.batches if b[0] >= position]
    if not following:
        assert boundary is None
    elif boundary is None:  # a wrapper that an index entry points to: the batch before it was not read
        assert following[0][:2] in wrappers(built)
    else:
        assert boundary.position == following[0][0]
        before = [b[3] for b in built.batches if b[0] < boundary.position]
        assert max(before, default=BASE - 1) < boundary.offset <= following[0][2]


@pytest.mark.parametrize("case", ["right", "other offset", "other time", "beyond the end"])
def test_a_time_index_entry_is_used_if_the_batch_has_its_timestamp(built: Segment, case: str) -> None:
    offset, time = built.batches[20][3], T0 + 20
    entry = {
        "right": (time, offset),
        "other offset": (time, built.batches[25][3]),
        "other time": (time + 1, offset),
        "beyond the end": (time, offset + 10**6),
    }[case]
    with open(f"{built.segment.directory}/1000.timeindex", "wb") as out:
        out.write(struct.pack(">qi", entry[0], entry[1] - BASE))
    with SegmentLookup(built.segment, built.segment.size_bytes, Window()) as lookup:
        assert lookup.find_timestamp(T0 + 22) == (built.batches[20][0] if case == "right" else 0)
        assert lookup.find_timestamp(T0 + 20) == 0
