"""Check that the leader epochs of a log's batches increase and match its leader-epoch-checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT
from native_log.log.problems import Problem, advice_for
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from native_log.checkpoints.leader_epochs import EpochEntry

KIND = "leader-epochs"


@dataclass(frozen=True, slots=True)
class _EpochRun:
    """Consecutive batches of one epoch.

    Attributes:
        epoch: the leader epoch.
        path, position, offset: file, position and base offset of the first batch.
        last_offset: the last offset of the last batch.
        batches: the number of batches.
        is_wrong: the epoch is already reported as wrong.
    """

    epoch: int
    path: str
    position: int
    offset: int
    last_offset: int
    batches: int = 1
    is_wrong: bool = False


class EpochCheck:
    """Check the leader epochs of a log, whose batches are passed to `take` in order.

    Leader epochs never decrease. The CRC of a batch does not cover its epoch. So if a single batch has a
    greater epoch than the batches around it, that batch is reported, not those after it.
    """

    def __init__(
        self, path: Path, topic: str, log_start_offset: int, read_epochs: Callable[[], tuple[EpochEntry, ...]]
    ) -> None:
        """Begin the check of the log in the partition directory `path`.

        Args:
            path, topic, log_start_offset: those of the log.
            read_epochs: reads the entries of its leader-epoch-checkpoint.
        """
        self._path = path
        self._log_start_offset = log_start_offset
        self._read_epochs = read_epochs
        self._leader_epochs = read_epochs()
        self._advice = advice_for(topic)
        self._is_missing = False
        self._before: _EpochRun | None = None
        """The run before `_run`. It is not compared with the checkpoint yet: if `_run` turns out to be a
        single wrong batch, this run continues after it."""
        self._run: _EpochRun | None = None

    def take(self, path: str, batches: pa.RecordBatch) -> Iterator[Problem]:
        """Yield the problems in the next batches (BATCH_SCHEMA) of the log."""
        epochs, magics = int32s(batches, "leaderEpoch"), int32s(batches, "magic")
        last_offsets, run = int64s(batches, "lastOffset"), self._run
        if run is not None and set(epochs) == {run.epoch} and min(magics) >= 2:  # nearly always
            self._run = replace(run, last_offset=last_offsets[-1], batches=run.batches + len(epochs))
            return
        positions, base_offsets = int64s(batches, "position"), int64s(batches, "baseOffset")
        for i, epoch in enumerate(epochs):
            if magics[i] < 2 or epoch < 0:
                continue
            if self._run is not None and self._run.epoch == epoch:
                run = self._run
                self._run = replace(run, last_offset=last_offsets[i], batches=run.batches + 1)
            else:
                yield from self._begin(_EpochRun(epoch, path, positions[i], base_offsets[i], last_offsets[i]))

    def finish(self) -> Iterator[Problem]:
        """Yield the problems of the last batches and those within the checkpoint."""
        yield from self._compare(self._before)
        yield from self._compare(self._run)
        for before, after in pairwise(self._leader_epochs):
            if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
                message = f"expected increasing leader epochs and start offsets, found {after} after {before}"
                yield self._checkpoint_problem(after.start_offset, message)

    def _begin(self, run: _EpochRun) -> Iterator[Problem]:
        before, now = self._before, self._run
        if now is None or run.epoch > now.epoch:
            yield from self._compare(before)
            self._before, self._run = now, run
        elif now.batches == 1 and before is not None and before.epoch <= run.epoch:
            yield self._out_of_order(now, f"at most {run.epoch}, as in the batches around it")
            if before.epoch == run.epoch:
                run = replace(before, last_offset=run.last_offset, batches=before.batches + 1)
                self._before = None
            self._run = run
        else:
            yield self._out_of_order(run, f"at least {now.epoch}, as in the batch before it")
            yield from self._compare(before)
            yield from self._compare(now)
            self._before, self._run = None, replace(run, is_wrong=True)

    def _compare(self, run: _EpochRun | None) -> Iterator[Problem]:
        """Compare a run with the checkpoint.

        Batches below the checkpoint's first entry may have any epoch up to that of the entry: retention
        removes earlier entries.
        """
        if run is None or run.is_wrong or run.last_offset < self._log_start_offset:
            return
        problem = self._mismatch(run)
        if problem is not None:
            # The batches may be newer than what was read: a broker writes a new epoch before its first batch.
            self._leader_epochs = self._read_epochs()
            problem = self._mismatch(run)
        if problem is not None and not self._is_missing:
            self._is_missing = not self._leader_epochs
            yield problem

    def _mismatch(self, run: _EpochRun) -> Problem | None:
        """Return how a run differs from the checkpoint as it was read; None if it does not."""
        start, entries = self._log_start_offset, self._leader_epochs
        where = f"position {run.position} of {run.path.rpartition('/')[2]}"
        if not entries:
            message = f"the batch at {where} has epoch {run.epoch}, but the checkpoint is empty or missing"
            return self._checkpoint_problem(run.offset, message)
        for offset in (max(start, run.offset), run.last_offset):
            covering = [entry for entry in entries if entry.start_offset <= offset]
            epoch = covering[-1].epoch if covering else min(run.epoch, entries[0].epoch)
            if epoch != run.epoch:
                expected = f"expected epoch {run.epoch} at offset {offset}, as in the batch at {where}"
                return self._checkpoint_problem(offset, f"{expected}, found {epoch}")
        return None

    def _out_of_order(self, run: _EpochRun, expected: str) -> Problem:
        message = f"expected a leader epoch of {expected}, found {run.epoch}"
        return Problem(KIND, run.path, run.position, run.offset, message, self._advice.disordered)

    def _checkpoint_problem(self, offset: int, message: str) -> Problem:
        path = f"{self._path}/{LEADER_EPOCH_CHECKPOINT}"
        return Problem(KIND, path, None, offset, message, self._advice.epochs)
