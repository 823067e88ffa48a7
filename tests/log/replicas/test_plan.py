"""Which copy is read for which offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.checkpoints.leader_epochs import EpochEntry
from native_log.log.leader_history import BatchEpoch, History, agreed_end, history
from native_log.log.offset_span import OffsetSpan
from native_log.log.replicas.plan import CopySpan, CopyState, plan_merge

from .replication import Partition, Replica

if TYPE_CHECKING:
    from collections.abc import Sequence

REPLICA = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 4)),
        st.tuples(st.just("fetch"), REPLICA, st.integers(0, 5)),
        st.tuples(st.just("fetch"), REPLICA, st.just(100)),
        st.tuples(st.just("elect"), REPLICA),
        st.tuples(st.just("fall_behind"), REPLICA),
        st.tuples(st.just("retain"), REPLICA, st.integers(1, 3)),
        st.tuples(st.just("snapshot"), REPLICA),
    ),
    max_size=60,
)
MISSING = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 30), st.integers(1, 6)), max_size=6)


def run(steps: Sequence[tuple[Any, ...]]) -> tuple[Partition, list[Replica]]:
    """Return the partition after the steps, and all copies: snapshots and the replicas."""
    partition = Partition(3)
    snapshots = []
    for name, *arguments in steps:
        result = getattr(partition, name)(*arguments)
        if name == "snapshot":
            snapshots.append(result)
    return partition, [*snapshots, *partition.replicas]


def merged_records(copies: Sequence[Replica], spans: Sequence[CopySpan]) -> dict[int, Any]:
    return {
        offset: copies[span.copy].record(offset)
        for span in spans
        for offset in range(span.start_offset, span.end_offset)
    }


@given(STEPS, st.data())
def test_the_merged_log_has_all_committed_records_and_is_the_leaders(steps: Any, data: st.DataObject) -> None:
    partition, everything = run(steps)
    chosen = data.draw(st.lists(st.sampled_from(range(len(everything))), min_size=1, unique=True))
    copies = [everything[index] for index in chosen]
    plan = plan_merge([copy.state() for copy in copies])
    merged = merged_records(copies, plan.spans)
    assert sum(span.end_offset - span.start_offset for span in plan.spans) == len(merged)
    assert list(merged) == list(range(plan.log_start_offset, plan.log_end_offset))
    leader = copies[plan.leader]
    for offset in range(leader.start, leader.end):
        assert merged[offset] == leader.record(offset)
    assert plan.log_end_offset == leader.end
    # A follower that has started over, and has no records yet, may begin after all records of the others.
    counted = [copy for copy in copies if copy.records or copy.start <= plan.log_end_offset]
    for copy in counted:
        assert copy.high_watermark <= plan.log_end_offset
        for offset in range(plan.log_start_offset, copy.high_watermark):
            assert merged[offset] == partition.committed[offset]
    assert plan.high_watermark == max(copy.high_watermark for copy in counted)
    for index, copy in enumerate(copies):
        is_read_completely = plan.log_start_offset <= copy.start or copy.start == plan.agreed_ends[index]
        assert is_read_completely == (index not in plan.unconnected)


@given(STEPS)
def test_a_copy_agrees_up_to_where_its_records_differ(steps: Any) -> None:
    _, copies = run(steps)
    plan = plan_merge([copy.state() for copy in copies])
    leader = copies[plan.leader]
    for copy, agreed in zip(copies, plan.agreed_ends, strict=True):
        for offset in range(max(copy.start, leader.start), min(copy.end, leader.end)):
            assert (copy.record(offset) == leader.record(offset)) == (offset < agreed)


@given(STEPS, MISSING)
def test_missing_offsets_are_read_from_a_copy_that_has_them(steps: Any, missing: Any) -> None:
    _, copies = run(steps)
    absent: list[set[int]] = [set() for _ in copies]
    for index, offset, count in missing:
        copy = copies[index % len(copies)]
        absent[index % len(copies)] |= set(range(offset, offset + count)) & set(range(copy.start, copy.end))
    states = [
        copy.state(tuple(OffsetSpan(offset, offset + 1) for offset in sorted(lost)))
        for copy, lost in zip(copies, absent, strict=True)
    ]
    intact = plan_merge([copy.state() for copy in copies])
    plan = plan_merge(states)
    assert (plan.log_start_offset, plan.log_end_offset) == (intact.log_start_offset, intact.log_end_offset)
    assert merged_records(copies, plan.spans) == merged_records(copies, intact.spans)
    for span in plan.spans:
        for offset in range(span.start_offset, span.end_offset):
            if offset in absent[span.copy]:
                for index, copy in enumerate(copies):
                    has_it = copy.start <= offset < plan.agreed_ends[index]
                    assert not has_it or offset in absent[index]


def state(*epochs: tuple[int, int], start: int = 0, end: int, **others: Any) -> CopyState:
    entries = tuple(EpochEntry(epoch, offset) for epoch, offset in epochs)
    return CopyState(History(entries, end), start, end, **others)


def test_the_highest_epoch_leads_even_if_another_copy_is_longer() -> None:
    plan = plan_merge([state((0, 0), end=100), state((0, 0), (1, 80), end=90)])
    assert (plan.leader, plan.agreed_ends, plan.log_end_offset) == (1, (80, 90), 90)
    assert plan.spans == (CopySpan(0, 90, 1),)


def test_an_elected_leader_without_records_leads() -> None:
    elected = history((EpochEntry(0, 0), EpochEntry(1, 90)), 90, last=BatchEpoch(0, 80))
    plan = plan_merge([state((0, 0), end=100), CopyState(elected, 0, 90)])
    assert (plan.leader, plan.agreed_ends, plan.log_end_offset) == (1, (90, 90), 90)


def test_earlier_records_of_an_older_copy_are_read_if_they_connect() -> None:
    leader, older = state((2, 50), start=50, end=100), state((1, 0), (2, 40), end=60)
    assert plan_merge([leader, older]).spans == (CopySpan(0, 50, 1), CopySpan(50, 100, 0))
    apart = plan_merge([leader, state((1, 0), (2, 30), end=40)])
    assert (apart.spans, apart.unconnected, apart.log_start_offset) == ((CopySpan(50, 100, 0),), (1,), 50)


@pytest.mark.parametrize(("high_watermark", "start"), [(50, 0), (49, 50), (None, 50)])
def test_without_a_common_epoch_only_committed_records_count(high_watermark: int | None, start: int) -> None:
    older = state((1, 0), end=60, high_watermark=high_watermark)
    assert plan_merge([state((2, 50), start=50, end=100), older]).log_start_offset == start


def test_a_copy_without_records_hides_no_records() -> None:
    started_over = CopyState(history((), 70), 70, 70, high_watermark=70)
    plan = plan_merge([state((0, 0), end=60, high_watermark=50), started_over])
    assert (plan.leader, plan.spans, plan.log_end_offset) == (0, (CopySpan(0, 60, 0),), 60)
    assert (plan.high_watermark, plan.unconnected) == (50, ())


def test_every_copy_that_does_not_connect_is_named() -> None:
    older = state((1, 0), end=40)
    assert plan_merge([state((1, 0), (2, 50), start=50, end=90), older, older]).unconnected == (1, 2)


def test_deleted_records_stay_deleted() -> None:
    plan = plan_merge([state((0, 0), end=100, log_start_offset=30), state((0, 0), end=90)])
    assert (plan.log_start_offset, plan.spans) == (30, (CopySpan(30, 100, 0),))
    emptied = plan_merge([state((0, 0), end=100, log_start_offset=100), state((0, 0), end=90)])
    assert (emptied.log_start_offset, emptied.log_end_offset, emptied.spans) == (100, 100, ())


def test_the_high_watermark_counts_only_up_to_where_a_copy_agrees() -> None:
    diverged = state((0, 0), end=100, high_watermark=95)
    plan = plan_merge([state((0, 0), (1, 80), end=90, high_watermark=70), diverged])
    assert plan.high_watermark == 80


def test_a_leader_that_lost_its_end_is_completed() -> None:
    lost = history((EpochEntry(0, 0), EpochEntry(1, 80)), 60, last=BatchEpoch(0, 50))
    plan = plan_merge([CopyState(lost, 0, 60), state((0, 0), end=100)])
    assert plan.spans == (CopySpan(0, 60, 0), CopySpan(60, 80, 1))


@pytest.mark.parametrize(
    ("checkpoint", "first", "last", "expected"),
    [
        ([(0, 0), (1, 10), (2, 12)], (0, 0), (2, 16), [(0, 0), (1, 10), (2, 12)]),
        ([(0, 0), (2, 5), (1, 10)], (0, 0), (1, 16), [(0, 0), (1, 10)]),
        ([(0, 0), (3, 5)], (0, 0), (0, 16), [(0, 0)]),  # the segments are older than the checkpoint
        ([(0, 0), (3, 19)], (0, 0), (0, 16), [(0, 0)]),
        ([(0, 0), (3, 20)], (0, 0), (0, 16), [(0, 0), (3, 20)]),  # a leader without records
        ([(4, 10)], (-1, 0), (4, 16), [(-1, 0), (4, 10)]),
        ([(4, 10)], (2, 0), (4, 16), [(4, 10)]),
        ([], (-1, 0), (-1, 16), [(-1, 0)]),
        ([(4, 0)], None, None, [(4, 0)]),
        ([], None, None, []),
    ],
)
def test_the_history_of_a_copy(checkpoint: Any, first: Any, last: Any, expected: Any) -> None:
    first, last = (None if batch is None else BatchEpoch(*batch) for batch in (first, last))
    actual = history([EpochEntry(*entry) for entry in checkpoint], 20, first, last)
    assert [(entry.epoch, entry.start_offset) for entry in actual.entries] == expected


def test_copies_without_epochs_agree_up_to_the_shorter_end() -> None:
    legacy, shorter = (history((), end, BatchEpoch(-1, 0), BatchEpoch(-1, end - 10)) for end in (100, 60))
    assert agreed_end(legacy, shorter) == 60
