"""The leader epochs of a copy of a log, and the offset up to which two copies have the same records.

Each leader epoch has one leader, and followers copy its batches in order. So two copies that both have
records of an epoch have the same records up to the place where the first of them leaves that epoch (KIP-101,
KIP-279). All functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry, drop_contradicted

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class BatchEpoch:
    """The leader epoch of a batch.

    Attributes:
        epoch: the leader epoch; -1 for a batch without one, as of magic 0 and 1.
        base_offset: the base offset of the batch.
    """

    epoch: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class History:
    """The leader epochs of a copy.

    Attributes:
        entries: the epochs and their start offsets, both increasing. Epoch -1 stands for batches without a
            leader epoch.
        end_offset: the end of the last epoch, exclusive.
    """

    entries: tuple[EpochEntry, ...]
    end_offset: int

    @property
    def last_epoch(self) -> int:
        """The last epoch; -1 if there is none."""
        return self.entries[-1].epoch if self.entries else -1

    def end_of(self, epoch: int) -> int:
        """Return the offset at which one of the epochs ends, exclusive."""
        later = (entry.start_offset for entry in self.entries if entry.epoch > epoch)
        return next(later, self.end_offset)


def history(
    entries: Sequence[EpochEntry],
    end_offset: int,
    first: BatchEpoch | None = None,
    last: BatchEpoch | None = None,
) -> History:
    """Return the history of a copy.

    Args:
        entries: the epochs in leader-epoch-checkpoint. A broker writes an epoch to it before the first batch.
        end_offset: the log end offset of the copy.
        first, last: the first batch and the last one; None: there is none, or it is not known. Entries that
            contradict the last batch are ignored: they are those of another time than the segments. Batches
            before the first entry have no leader epoch if the first batch has none.
    """
    kept = drop_contradicted(entries)
    if last is not None:
        kept = tuple(e for e in kept if e.epoch <= last.epoch or e.start_offset >= end_offset)
    if first is not None and first.epoch < 0 and not (kept and kept[0].start_offset <= first.base_offset):
        kept = (EpochEntry(-1, first.base_offset), *kept)
    last_start = kept[-1].start_offset if kept else 0
    return History(kept, max(end_offset, last_start))


def agreed_end(leading: History, other: History) -> int | None:
    """Return the offset up to which (exclusive) a copy has the records of the leading history.

    A follower truncates its log there (KIP-279). None if the two have no epoch in common.
    """
    own = {entry.epoch for entry in other.entries}
    common = max((entry.epoch for entry in leading.entries if entry.epoch in own), default=None)
    return None if common is None else min(leading.end_of(common), other.end_of(common))
