"""Whether the leader epochs of a log's batches fit each other, and its leader-epoch-checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT
from native_log.log.problems import Problem, advice_for
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from native_log.log import PartitionLog

KIND = "leader-epochs"


@dataclass(frozen=True, slots=True)
class _EpochRun:
    """Consecutive batches of one epoch: where the first one lies, and the last offset of the last one.

    `is_wrong`: it was reported for its epoch.
    """

    epoch: int
    path: str
    position: int
    offset: int
    last_offset: int
    batches: int = 1
    is_wrong: bool = False


class EpochCheck:
    """Takes the batches of a log in order.

    Leader epochs never go back. No CRC covers a batch's epoch, so a single batch with a greater epoch than
    those around it is taken for the one that is wrong.
    """

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._advice = advice_for(log.topic)
        self._is_missing = False
        self._before: _EpochRun | None = None
        """Not yet compared with the checkpoint: `_run` may turn out to be wrong, and this to continue."""
        self._run: _EpochRun | None = None

    def take(self, path: str, batches: pa.RecordBatch) -> Iterator[Problem]:
        """The problems that the batches (BATCH_SCHEMA) which follow show."""
        epochs, magics = int32s(batches, "leaderEpoch"), int32s(batches, "magic")
        positions, last_offsets = int64s(batches, "position"), int64s(batches, "lastOffset")
        base_offsets = int64s(batches, "baseOffset")
        for i, epoch in enumerate(epochs):
            if magics[i] < 2 or epoch < 0:
                continue
            if self._run is not None and self._run.epoch == epoch:
                run = self._run
                self._run = replace(run, last_offset=last_offsets[i], batches=run.batches + 1)
            else:
                yield from self._begin(_EpochRun(epoch, path, positions[i], base_offsets[i], last_offsets[i]))

    def finish(self) -> Iterator[Problem]:
        """The problems of the last batches, and of the checkpoint itself."""
        yield from self._compared(self._before)
        yield from self._compared(self._run)
        for before, after in pairwise(self._log.leader_epochs):
            if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
                message = (
                    f"expected leader epochs and their offsets to increase, found {after} behind {before}"
                )
                yield self._of_checkpoint(after.start_offset, message)

    def _begin(self, run: _EpochRun) -> Iterator[Problem]:
        before, now = self._before, self._run
        if now is None or run.epoch > now.epoch:
            yield from self._compared(before)
            self._before, self._run = now, run
        elif now.batches == 1 and before is not None and before.epoch <= run.epoch:
            yield self._out_of_order(now, f"at most {run.epoch}, as that of the batches around it")
            if before.epoch == run.epoch:
                run = replace(before, last_offset=run.last_offset, batches=before.batches + 1)
                self._before = None
            self._run = run
        else:
            yield self._out_of_order(run, f"at least {now.epoch}, as that of the batch before it")
            yield from self._compared(before)
            yield from self._compared(now)
            self._before, self._run = None, replace(run, is_wrong=True)

    def _compared(self, run: _EpochRun | None) -> Iterator[Problem]:
        """What the checkpoint says of a run. Its first entry begins at the log's start, where an earlier one
        of that epoch, or of a lower one, may have been removed."""
        start = self._log.log_start_offset
        if run is None or run.is_wrong or run.last_offset < start:
            return
        entries = self._log.leader_epochs
        where = f"position {run.position} of {run.path.rpartition('/')[2]}"
        if not entries:
            if not self._is_missing:
                self._is_missing = True
                message = (
                    f"the batch at {where} has epoch {run.epoch}, the checkpoint has none, or is missing"
                )
                yield self._of_checkpoint(run.offset, message)
            return
        for offset in (max(start, run.offset), run.last_offset):
            covering = [entry for entry in entries if entry.start_offset <= offset]
            epoch = covering[-1].epoch if covering else min(run.epoch, entries[0].epoch)
            if epoch != run.epoch:
                expected = f"expected epoch {run.epoch} at offset {offset}, as of the batch at {where}"
                yield self._of_checkpoint(offset, f"{expected}, found {epoch}")
                return

    def _out_of_order(self, run: _EpochRun, expected: str) -> Problem:
        message = f"expected a leader epoch of {expected}, found {run.epoch}"
        return Problem(KIND, run.path, run.position, run.offset, message, self._advice.disordered)

    def _of_checkpoint(self, offset: int, message: str) -> Problem:
        path = f"{self._log.path}/{LEADER_EPOCH_CHECKPOINT}"
        return Problem(KIND, path, None, offset, message, self._advice.epochs)
