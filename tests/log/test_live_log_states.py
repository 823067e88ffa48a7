"""A LiveLog that is refreshed between any changes that a broker makes equals a log that is opened afresh."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from native_log.checkpoints.leader_epochs import EpochEntry, write_leader_epochs
from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.log.live.live_log import LiveLog
from native_log.log.partition_log import PartitionLog
from native_log.log.sources.directory import DirectorySource
from native_log.segment.files import file_name
from tests.builders.batches import ABORT, COMMIT, TRANSACTIONAL, Rec, marker, v2
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

SECOND_NS = 1_000_000_000


@dataclass
class Batch:
    """A batch of the model: its bytes and offsets, and what it means for transactions."""

    data: bytes
    first: int
    last: int
    values: list[bytes]
    producer_id: int | None = None
    is_marker: bool = False


@dataclass
class Segment:
    base: int
    batches: list[Batch] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        return b"".join(batch.data for batch in self.batches)


def rows(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, bytes]]:
    return [
        row
        for batch in batches
        for row in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
    ]


class LiveLogMachine(RuleBasedStateMachine):
    """A broker that writes a log, and a reader that follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.path = self.root / "t-0"
        self.path.mkdir()
        self.segments = [Segment(0)]
        self.unwritten = b""
        """The rest of the last batch, which is partly written."""
        self.preallocated = 0
        self.epoch = 0
        self.entries: list[EpochEntry] = []
        self.log_start = 0
        self.high_watermark = 0
        self.is_live = True
        self.written = self.deleted = 0
        self.history: dict[int, bytes] = {}
        """The records of all offsets, also of those that were deleted."""
        self.diverged: int | None = None
        """The first offset that is different since the last refresh."""
        self.now_ns = SECOND_NS * 1_700_000_000
        """The time of the last change. All files of the model have such times."""
        self.is_settled = True
        self.clock_ns = 0
        self.position = 0
        self.seen: list[tuple[int, bytes]] = []
        self.write_last()
        self.live = LiveLog(
            DirectorySource.at(self.path, checkpoints=self.checkpoints()), now_ns=lambda: self.clock_ns
        )
        self.seen_end = 0

    # --- the model ---

    @property
    def end(self) -> int:
        """The log end offset that a reader may see."""
        batches = [batch for segment in self.segments for batch in segment.batches]
        if self.unwritten:
            batches.pop()
        return max([self.segments[-1].base, *(batch.last + 1 for batch in batches)])

    @property
    def planned_end(self) -> int:
        return max(
            [self.segments[-1].base]
            + [batch.last + 1 for segment in self.segments for batch in segment.batches]
        )

    def open_transactions(self, end: int) -> dict[int, int]:
        """Return the first offsets of transactions that are open at an offset, by producer."""
        first_offsets: dict[int, int] = {}
        for segment in self.segments:
            for batch in segment.batches:
                if batch.producer_id is None or batch.first >= end:
                    continue
                if batch.is_marker:
                    first_offsets.pop(batch.producer_id, None)
                else:
                    first_offsets.setdefault(batch.producer_id, batch.first)
        return first_offsets

    @property
    def first_undecided(self) -> int:
        """The offset up to which records may be deleted.

        A log that is opened does not know transactions whose first record is gone.
        """
        ends = self.high_watermark, self.end
        return min([*ends, *(first for end in ends for first in self.open_transactions(end).values())])

    def checkpoints(self) -> PartitionCheckpoints:
        return PartitionCheckpoints(
            log_start_offset=self.log_start, high_watermark=self.high_watermark, live=self.is_live
        )

    def tick(self, *names: str) -> None:
        """Give the files that were changed, and the directory, the time of the change."""
        if self.is_settled:
            self.now_ns += 10 * SECOND_NS
            self.is_settled = False
        for path in (*(self.path / name for name in names), self.path):
            if path.exists():
                os.utime(path, ns=(self.now_ns, self.now_ns))

    def write_last(self) -> None:
        """Bring the file of the last segment up to date, in place, as a broker appends to it."""
        name = file_name(self.segments[-1].base, "log")
        data = self.segments[-1].data
        written = data[: len(data) - len(self.unwritten)]
        directory_ns = self.path.stat().st_mtime_ns
        is_new = not (self.path / name).exists()
        with open(self.path / name, "ab") as out:
            pass
        with open(self.path / name, "r+b") as out:
            out.write(written)
            out.truncate(len(written) + self.preallocated)
        self.tick(name)
        if not is_new:  # a change of the content does not change the directory
            os.utime(self.path, ns=(directory_ns, directory_ns))

    def append_batch(self, batch: Batch) -> None:
        if not self.entries or self.entries[-1].epoch != self.epoch:
            self.entries.append(EpochEntry(self.epoch, batch.first))
            write_leader_epochs(self.path, self.entries, flush=False)
            self.tick("leader-epoch-checkpoint")
        self.segments[-1].batches.append(batch)
        self.history.update(dict(zip(range(batch.first, batch.last + 1), batch.values, strict=True)))

    def delete(self, segment: Segment) -> None:
        """Rename a segment, as brokers do before they delete it. A new file then never gets its inode."""
        self.deleted += 1
        name = file_name(segment.base, "log")
        (self.path / name).rename(self.path / f"{name}.{self.deleted}.deleted")

    def finish_batch(self) -> None:
        if self.unwritten:
            self.unwritten = b""
            self.write_last()

    @initialize(live=st.booleans())
    def begin(self, live: bool) -> None:
        self.is_live = live

    @rule(
        count=st.integers(1, 4),
        size=st.sampled_from([1, 100, 3000]),
        producer=st.sampled_from([None, None, 1, 2]),
        cut=st.integers(0, 3),
    )
    def append(self, count: int, size: int, producer: int | None, cut: int) -> None:
        """Append batches. Of the last one, only a part may be written."""
        self.finish_batch()
        for _ in range(count):
            offset = self.planned_end
            values = []
            for _ in range(1 + size % 3):
                self.written += 1
                values.append(f"{self.written}".rjust(size).encode())
            records = [Rec(b"k", value) for value in values]
            fields = {} if producer is None else {"producer_id": producer, "attributes": TRANSACTIONAL}
            data = v2(records, offset, leader_epoch=self.epoch, **fields)  # type: ignore[arg-type]
            self.append_batch(Batch(data, offset, offset + len(values) - 1, values, producer))
        if cut:
            data = self.segments[-1].batches[-1].data
            self.unwritten = data[len(data) * cut // 4 :]
        self.write_last()

    @rule(producer=st.sampled_from([1, 2]), is_commit=st.booleans())
    def end_transaction(self, producer: int, is_commit: bool) -> None:
        self.finish_batch()
        offset = self.planned_end
        if producer in self.open_transactions(offset):
            data = marker(offset, producer, COMMIT if is_commit else ABORT)
            data = data[:12] + self.epoch.to_bytes(4, "big") + data[16:]
            self.append_batch(Batch(data, offset, offset, [b""], producer, is_marker=True))
            self.write_last()

    @rule(size=st.sampled_from([10, 5000]))
    def preallocate(self, size: int) -> None:
        self.preallocated = size
        self.write_last()

    @precondition(lambda self: self.segments[-1].batches)
    @rule()
    def roll(self) -> None:
        self.finish_batch()
        self.preallocated = 0
        self.write_last()
        self.segments.append(Segment(self.planned_end))
        self.write_last()

    @precondition(lambda self: len(self.segments) > 1)
    @rule(count=st.integers(1, 3))
    def delete_segments(self, count: int) -> None:
        """Delete old segments, as retention does, but no records of open transactions."""
        for _ in range(min(count, len(self.segments) - 1)):
            if self.segments[1].base > self.first_undecided:
                break
            self.delete(self.segments.pop(0))
            self.tick()
        self.log_start = max(self.log_start, self.segments[0].base)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        if self.first_undecided > self.log_start:
            self.log_start = data.draw(st.integers(self.log_start, self.first_undecided))

    @precondition(lambda self: len(self.segments) > 2)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Merge sealed segments into one, without some of their batches."""
        first = data.draw(st.integers(0, len(self.segments) - 3))
        last = data.draw(st.integers(first, len(self.segments) - 2))
        merged = Segment(self.segments[first].base)
        for segment in self.segments[first : last + 1]:
            for batch in segment.batches:
                if batch.producer_id is not None or data.draw(st.booleans()):
                    merged.batches.append(batch)
        name = file_name(merged.base, "log")
        (self.path / f"{name}.swap").write_bytes(merged.data)
        for segment in self.segments[first : last + 1]:
            self.delete(segment)
        (self.path / f"{name}.swap").rename(self.path / name)
        self.tick(name)
        self.segments[first : last + 1] = [merged]

    @precondition(lambda self: self.end > 0)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Truncate the log, as a follower does after an unclean election. A later append has a new epoch."""
        ends = [segment.base for segment in self.segments]
        ends += [batch.last + 1 for segment in self.segments for batch in segment.batches]
        ends = [offset for offset in ends if max(self.log_start, self.segments[0].base) <= offset]
        if not ends:
            return
        offset = data.draw(st.sampled_from(sorted(set(ends))))
        if offset >= self.planned_end:
            return
        self.unwritten, self.preallocated = b"", 0
        while len(self.segments) > 1 and self.segments[-1].base > offset:
            self.delete(self.segments.pop())
            self.tick()
        self.segments[-1].batches = [b for b in self.segments[-1].batches if b.last < offset]
        self.write_last()
        self.entries = [entry for entry in self.entries if entry.start_offset < offset]
        write_leader_epochs(self.path, self.entries, flush=False)
        self.tick("leader-epoch-checkpoint")
        self.epoch += 1
        self.high_watermark = min(self.high_watermark, self.planned_end)
        self.history = {known: value for known, value in self.history.items() if known < offset}
        self.diverged = offset if self.diverged is None else min(self.diverged, offset)

    @rule(data=st.data())
    def advance_high_watermark(self, data: st.DataObject) -> None:
        if self.high_watermark < self.end:
            self.high_watermark = data.draw(st.integers(self.high_watermark, self.end))

    @rule(is_live=st.booleans())
    def start_or_stop_the_broker(self, is_live: bool) -> None:
        self.is_live = is_live

    # --- the reader ---

    @rule(is_settled=st.booleans(), share=st.integers(0, 4), is_committed=st.booleans())
    def refresh(self, is_settled: bool, share: int, is_committed: bool) -> None:
        """Refresh, compare with a log that is opened, and read a part of what is new."""
        before = self.live.log.high_watermark
        self.is_settled = is_settled
        self.clock_ns = self.now_ns + (SECOND_NS if is_settled else 0)
        change = self.live.refresh(self.checkpoints())
        fresh = PartitionLog.open(self.path, checkpoints=self.checkpoints())
        live = self.live
        assert live.log.log_end_offset == fresh.log_end_offset == max(self.end, self.log_start)
        assert live.log.local_log_start_offset == fresh.local_log_start_offset
        assert live.log.log_start_offset == fresh.log_start_offset
        assert [s.id for s in live.log.segments] == [s.id for s in fresh.segments]
        assert live.leader_epochs == fresh.leader_epochs == tuple(self.entries)

        is_truncated = self.diverged is not None and self.diverged < self.seen_end
        assert (change.truncated_to is not None) == is_truncated
        if change.truncated_to is not None:
            assert self.diverged is not None
            assert change.truncated_to <= self.diverged
            before = min(before, change.truncated_to)
            self.position = min(self.position, change.truncated_to)
            self.seen = [row for row in self.seen if row[0] < change.truncated_to]
        self.diverged, self.seen_end = None, live.log.log_end_offset
        assert not change.is_recreated

        assert live.log.high_watermark == min(live.log.log_end_offset, max(before, fresh.high_watermark))
        if live.log.high_watermark != fresh.high_watermark:
            checkpoints = PartitionCheckpoints(
                log_start_offset=self.log_start, high_watermark=live.log.high_watermark, live=True
            )
            fresh = PartitionLog.open(self.path, checkpoints=checkpoints)
        assert live.log.last_stable_offset == fresh.last_stable_offset

        self.position = max(self.position, live.log.local_log_start_offset)
        if is_committed:
            end = live.log.last_stable_offset
            read, expected = (
                rows(log.range(None, end, isolation_level="read_committed").read(["offset", "value"]))
                for log in (live.log, fresh)
            )
            assert read == expected
        end = self.position + (live.log.high_watermark - self.position) * share // 4
        if end > self.position:
            read = rows(live.log.range(self.position, end).read(["offset", "value"]))
            assert read == rows(fresh.read(self.position, end, ["offset", "value"]))
            self.seen += read
            self.position = end

    @invariant()
    def rows_are_read_once_and_in_order(self) -> None:
        if self.diverged is None:
            assert all(a[0] < b[0] for a, b in pairwise(self.seen))
            assert all(self.history[offset] == value for offset, value in self.seen if value), (
                "a row that is not in the log"
            )

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


LiveLogMachine.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)
TestLiveLog = LiveLogMachine.TestCase
