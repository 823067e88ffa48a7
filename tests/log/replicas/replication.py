"""A model of replication: replicas with leader epochs, elections from the in-sync replicas, truncation."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry, assign, truncate_from_end
from native_log.log.leader_history import history
from native_log.log.replicas.plan import CopyState

if TYPE_CHECKING:
    from native_log.log.offset_span import OffsetSpan


@dataclass
class Record:
    epoch: int
    number: int


@dataclass
class Replica:
    """A replica's log: its records by offset, from `start` on."""

    start: int = 0
    records: list[Record] = field(default_factory=list)
    epochs: tuple[EpochEntry, ...] = ()
    high_watermark: int = 0
    fetched_epoch: int = -1
    """The leader epoch in which it last compared its log with the leader's."""

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def record(self, offset: int) -> Record:
        return self.records[offset - self.start]

    def append(self, record: Record) -> None:
        self.epochs = assign(self.epochs, record.epoch, self.end)
        self.records.append(record)

    def truncate(self, offset: int) -> None:
        del self.records[max(0, offset - self.start) :]
        self.epochs = truncate_from_end(self.epochs, self.end)

    def state(self, missing: tuple[OffsetSpan, ...] = ()) -> CopyState:
        return CopyState(
            history(self.epochs, self.end),
            self.start,
            self.end,
            None,
            self.high_watermark,
            missing,
        )


class Partition:
    """A partition with replicas. Records below a high watermark are on all in-sync replicas."""

    def __init__(self, replicas: int) -> None:
        self.replicas = [Replica() for _ in range(replicas)]
        self.in_sync = set(range(replicas))
        self.epoch = -1
        self.leader = 0
        self.numbers = 0
        self.committed: list[Record] = []
        self.elect(0)

    def elect(self, index: int) -> None:
        """Elect one of the in-sync replicas. The former leader leaves the in-sync replicas."""
        candidates = sorted(self.in_sync - {self.leader}) or sorted(self.in_sync)
        if self.epoch >= 0 and len(candidates) > 0 and self.leader not in candidates:
            self.in_sync.discard(self.leader)
        self.leader = candidates[index % len(candidates)]
        self.epoch += 1
        replica = self.replicas[self.leader]
        replica.epochs = assign(replica.epochs, self.epoch, replica.end)
        replica.fetched_epoch = self.epoch
        self._commit()

    def produce(self, count: int) -> None:
        for _ in range(count):
            self.replicas[self.leader].append(Record(self.epoch, self.numbers))
            self.numbers += 1
        self._commit()

    def fetch(self, index: int, count: int) -> None:
        """Let a follower truncate what differs from the leader's log, and copy some records."""
        leader, follower = self.replicas[self.leader], self.replicas[index]
        if leader is follower:
            return
        if follower.fetched_epoch != self.epoch:
            same = follower.end
            while same > leader.start and not (
                same <= leader.end and self._agree(leader, follower, same - 1)
            ):
                same -= 1
            if same <= leader.start:  # the leader cannot tell what differs before its start
                same = min(same, follower.high_watermark)
            follower.truncate(max(same, follower.start))
            follower.fetched_epoch = self.epoch
        if follower.end < leader.start:
            follower.records.clear()
            follower.epochs = ()
            follower.start = leader.start
        for offset in range(follower.end, min(follower.end + count, leader.end)):
            follower.append(leader.record(offset))
        if follower.end >= leader.high_watermark:
            self.in_sync.add(index)
        self._commit()
        follower.high_watermark = max(follower.high_watermark, min(leader.high_watermark, follower.end))

    def fall_behind(self, index: int) -> None:
        """Remove a follower from the in-sync replicas."""
        if index != self.leader:
            self.in_sync.discard(index)
            self._commit()

    def retain(self, index: int, count: int) -> None:
        """Remove the first committed records of a replica."""
        replica = self.replicas[index]
        count = min(count, max(0, replica.high_watermark - replica.start), len(replica.records))
        del replica.records[:count]
        replica.start += count

    def snapshot(self, index: int) -> Replica:
        return deepcopy(self.replicas[index])

    def _agree(self, leader: Replica, follower: Replica, offset: int) -> bool:
        return follower.start <= offset and leader.record(offset) == follower.record(offset)

    def _commit(self) -> None:
        """Raise the high watermark, unless the leader waits for the first fetch of an in-sync follower."""
        leader = self.replicas[self.leader]
        in_sync = [self.replicas[index] for index in self.in_sync]
        if any(replica.fetched_epoch != self.epoch for replica in in_sync):
            return
        end = min(replica.end for replica in in_sync)
        leader.high_watermark = max(leader.high_watermark, end)
        for offset in range(len(self.committed), end):
            self.committed.append(leader.record(offset))
