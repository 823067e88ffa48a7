"""Which remote segments make up a log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.checkpoints.leader_epochs import EpochEntry
from native_log.log.offset_span import OffsetSpan
from native_log.log.tiers.by_name import NamedCopy, segments_by_name
from native_log.log.tiers.lineage import epochs_of, trace_lineage
from native_log.log.tiers.remote_segment import RemoteSegment
from native_log.segment.files import MAX_OFFSET
from tests.effort import examples

Part = tuple[str, int, int]


def segment(name: str, start: int, end: int, *epochs: tuple[int, int]) -> RemoteSegment:
    entries = tuple(EpochEntry(*each) for each in epochs or [(0, start)])
    return RemoteSegment(name, OffsetSpan(start, end), entries)


def epochs(*entries: tuple[int, int]) -> tuple[EpochEntry, ...]:
    return tuple(EpochEntry(*each) for each in entries)


def trace(
    segments: list[RemoteSegment], known: tuple[EpochEntry, ...], start: int = 0, end: int = 100
) -> list[Part]:
    parts = trace_lineage(segments, known, OffsetSpan(start, end))
    return [(part.segment.id, part.span.start_offset, part.span.end_offset) for part in parts]


ONE = epochs((0, 0))
TWO = epochs((0, 0), (2, 50))


@pytest.mark.parametrize(
    ("segments", "known", "parts"),
    [
        ([], ONE, []),
        ([segment("a", 0, 30), segment("b", 30, 60)], ONE, [("a", 0, 30), ("b", 30, 60)]),
        # A hole between two segments, and one that begins late.
        ([segment("a", 5, 30), segment("b", 40, 60)], ONE, [("a", 5, 30), ("b", 40, 60)]),
        # The new leader copied the same start again, with more records: the former copy is dropped.
        ([segment("a", 0, 30), segment("b", 0, 45)], ONE, [("b", 0, 45)]),
        # It began within the former copy.
        ([segment("a", 0, 30), segment("b", 20, 45)], ONE, [("a", 0, 30), ("b", 30, 45)]),
        # The new copy is shorter. Kafka finds nothing for the offsets behind it; the former copy has them.
        ([segment("a", 0, 30), segment("b", 0, 20)], ONE, [("b", 0, 20), ("a", 20, 30)]),
        # The former leader's last records were truncated away.
        (
            [segment("a", 0, 80), segment("b", 50, 90, (2, 50))],
            TWO,
            [("a", 0, 50), ("b", 50, 90)],
        ),
        # One segment with two epochs.
        ([segment("a", 0, 90, (0, 0), (2, 50))], TWO, [("a", 0, 90)]),
        # An epoch that is not the log's.
        ([segment("a", 0, 30, (1, 0))], TWO, []),
    ],
)
def test_parts(segments: list[RemoteSegment], known: tuple[EpochEntry, ...], parts: list[Part]) -> None:
    assert trace(segments, known) == parts


def test_only_the_offsets_of_the_span_are_read() -> None:
    segments = [segment("a", 0, 30), segment("b", 30, 60), segment("c", 60, 90)]
    assert trace(segments, ONE, 10, 60) == [("a", 10, 30), ("b", 30, 60)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[RemoteSegment], tuple[EpochEntry, ...]]:
    """Return the copies of segments of logs that share some leader epochs, and the epochs of one."""
    starts = sorted(draw(st.sets(st.integers(0, 39), min_size=1, max_size=4)))
    known = tuple(EpochEntry(2 * index, start) for index, start in enumerate([0, *starts[1:]]))
    segments = []
    for number in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, 38))
        end = draw(st.integers(start + 1, 40))
        within = [each for each in known if each.start_offset < end]
        later = [each for each in within if each.start_offset > start]
        first = max((each for each in within if each.start_offset <= start), key=lambda each: each.epoch)
        entries = [EpochEntry(first.epoch, start), *later]
        if draw(st.booleans()):  # a leader whose records were truncated away
            entries = [*entries[:-1], replace(entries[-1], epoch=entries[-1].epoch + 1)]
        segments.append(RemoteSegment(str(number), OffsetSpan(start, end), tuple(entries)))
    return segments, known


def has(segment: RemoteSegment, epoch: int, offset: int) -> bool:
    return any(
        each.epoch == epoch and each.span.start_offset <= offset < each.span.end_offset
        for each in segment.epoch_spans()
    )


@settings(max_examples=examples(300))
@given(histories(), st.integers(0, 40), st.integers(0, 40))
def test_each_offset_is_read_from_a_segment_with_its_epoch(
    history: tuple[list[RemoteSegment], tuple[EpochEntry, ...]], start: int, end: int
) -> None:
    segments, known = history
    parts = trace_lineage(segments, known, OffsetSpan(start, end))
    read = [
        (offset, part.segment)
        for part in parts
        for offset in range(part.span.start_offset, part.span.end_offset)
    ]
    offsets = [offset for offset, _ in read]
    assert offsets == sorted(set(offsets))
    epoch_of = {
        offset: max(e.epoch for e in known if e.start_offset <= offset) for offset in range(start, end)
    }
    assert all(has(segment, epoch_of[offset], offset) for offset, segment in read)
    assert set(offsets) == {
        offset for offset, epoch in epoch_of.items() if any(has(each, epoch, offset) for each in segments)
    }


def test_a_tier_of_which_no_segment_is_left() -> None:
    assert trace_lineage([], epochs_of([], ()), OffsetSpan(0, 90)) == []


def test_epochs_before_the_known_ones_are_those_of_the_segments() -> None:
    segments = [segment("a", 0, 30), segment("b", 20, 60, (0, 20), (2, 40)), segment("c", 60, 90, (4, 60))]
    assert epochs_of(segments, epochs((4, 60), (6, 95))) == epochs((0, 0), (2, 40), (4, 60), (6, 95))
    assert epochs_of(segments, ()) == epochs((0, 0), (2, 40), (4, 60))


def test_an_epoch_that_was_truncated_away_is_left_out() -> None:
    segments = [segment("a", 0, 30), segment("b", 30, 60, (1, 30)), segment("c", 30, 90, (2, 30))]
    assert epochs_of(segments, ()) == epochs((0, 0), (2, 30))


def test_segments_by_name() -> None:
    copies = [
        NamedCopy(0, "a", 10, True),
        NamedCopy(30, "b", 10, True),
        NamedCopy(30, "c", 20, True),
        NamedCopy(30, "d", 30, False),
        NamedCopy(60, "e", 0, False),
        NamedCopy(90, "f", 5, True),
    ]
    spans = [(each.id, each.span.start_offset, each.span.end_offset) for each in segments_by_name(copies)]
    assert spans == [("a", 0, 30), ("c", 30, 60), ("f", 90, MAX_OFFSET)]
