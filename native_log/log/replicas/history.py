"""The leader epochs of a copy of a log, and the offset up to which two copies have the same records.

Each leader epoch has one leader, and followers copy its batches in order. So two copies that both have
records of an epoch have the same records up to the place where the first of them leaves that epoch (KIP-101,
KIP-279). All functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry, drop_contradicted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class EpochRun:
    """Consecutive batches of one leader epoch.

    Attributes:
        epoch: the leader epoch; -1 for batches without one, as of magic 0 and 1.
        first_offset, last_offset: the lowest and the highest offset of the batches.
        batches: the number of batches.
    """

    epoch: int
    first_offset: int
    last_offset: int
    batches: int = 1


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


def history(runs: Iterable[EpochRun], checkpoint: Sequence[EpochEntry], end_offset: int) -> History:
    """Return the history of a copy.

    The batches decide. The checkpoint adds what they do not show: the start of an epoch whose first batches
    were compacted, and epochs without records. A leader notes its epoch before its first record.

    Args:
        runs: the epochs of the batches, in the order of offsets.
        checkpoint: the entries of leader-epoch-checkpoint.
        end_offset: the log end offset of the copy.
    """
    # No checksum covers the epoch of a batch, and a wrong one could make a copy lead. Brokers write an epoch
    # to the checkpoint before its first batch, so a single batch with another epoch does not count.
    known = {entry.epoch for entry in checkpoint}
    ordered = _without_disorder(
        run for run in runs if run.batches > 1 or run.epoch < 0 or not known or run.epoch in known
    )
    starts = {run.epoch: run.first_offset for run in ordered}
    for entry in checkpoint:
        if not any(_contradicts(run, entry) for run in ordered):
            starts[entry.epoch] = entry.start_offset
    entries = drop_contradicted([EpochEntry(epoch, start) for epoch, start in sorted(starts.items())])
    last_start = entries[-1].start_offset if entries else 0
    return History(entries, max(end_offset, last_start))


def agreed_end(leading: History, other: History) -> int | None:
    """Return the offset up to which (exclusive) a copy has the records of the leading history.

    A follower truncates its log there (KIP-279). None if the two have no epoch in common.
    """
    own = {entry.epoch for entry in other.entries}
    common = max((entry.epoch for entry in leading.entries if entry.epoch in own), default=None)
    return None if common is None else min(leading.end_of(common), other.end_of(common))


def _contradicts(run: EpochRun, entry: EpochEntry) -> bool:
    if run.epoch < entry.epoch:
        return run.last_offset >= entry.start_offset
    return run.first_offset < entry.start_offset


def _without_disorder(runs: Iterable[EpochRun]) -> list[EpochRun]:
    """Return the runs in an order of increasing epochs, without those that contradict it.

    If a single batch has another epoch than the batches around it, its epoch is wrong (see EpochCheck).
    """
    ordered: list[EpochRun] = []
    for run in runs:
        while ordered and ordered[-1].epoch > run.epoch and (ordered[-1].batches == 1 or run.batches > 1):
            ordered.pop()
        if not ordered or ordered[-1].epoch < run.epoch:
            ordered.append(run)
        elif ordered[-1].epoch == run.epoch:
            ordered[-1] = replace(
                ordered[-1], last_offset=run.last_offset, batches=ordered[-1].batches + run.batches
            )
    return ordered
