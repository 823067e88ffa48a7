"""Merge the copies of a log: read their states, plan, and report what was decided."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.errors import KafkaLogError
from native_log.log.offset_span import OffsetSpan
from native_log.log.replicas.plan import plan_merge
from native_log.log.replicas.state import read_state, without_doubtful_batches
from native_log.log.sources.directory import DirectorySource
from native_log.log.sources.joined import JoinedSource
from native_log.log.sources.log_part import LogPart
from native_log.policies import Gaps
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from native_log.log.log_state import LogSource, LogState
    from native_log.log.replicas.plan import CopyState, MergePlan

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CopiesMerge:
    """The copies of a log, as a value: tasks merge them again if files are gone.

    The attributes are the arguments of `merge`, with the sources of the copies.
    """

    copies: tuple[LogSource, ...]
    gaps: Gaps

    def __call__(self) -> JoinedSource:
        """Return the merged log as it is now, without copies that were removed.

        Raises KafkaLogError, OSError.
        """
        left = [copy for copy in self.copies if copy.folder.exists()] or self.copies
        for copy in self.copies:
            if copy not in left:
                logger.warning("%s: this copy was removed while it was read; others are read", copy.path)
        return merge([copy.open() for copy in left], self.gaps)


def merge(
    logs: Sequence[LogState],
    gaps: Gaps = Gaps.UNKNOWN,
    *,
    warn: Callable[[str], None] = logger.warning,
) -> JoinedSource:
    """Return the merged log of several copies.

    This costs no more than opening the copies. Readers find damage later, and read from other copies.

    Args:
        logs: the copies, at least one.
        gaps: whether compaction explains offsets that no batch of a copy has. If not, they are missing, and
            are read from other copies. If that is unknown, a warning is logged where they are read.
        warn: called with a sentence for each decision that leaves out records.

    Raises:
        KafkaLogError: the copies have different topic ids.
        OSError: a file cannot be read.
    """
    _check_topic_ids(logs)
    with ThreadPoolExecutor(min(available_cores(), len(logs)), "copy-states") as pool:
        states = without_doubtful_batches(logs, list(pool.map(read_state, logs)))
    plan = plan_merge(states)
    for decision in _decisions(plan, logs, states):
        warn(decision)
    again = CopiesMerge(tuple(log.source for log in logs), gaps)
    return _join(plan, logs, states, again)


def _check_topic_ids(logs: Sequence[LogState]) -> None:
    ids = {log.topic_id: log for log in logs if log.topic_id is not None}
    if len(ids) > 1:
        (first_id, first), (other_id, other) = list(ids.items())[:2]
        raise KafkaLogError(
            f"expected copies of one topic, found topic id {other_id}, but {first_id} in {first.path}: the "
            "topic was deleted and created again; give only the directories of one topic",
            path=other.path,
        )


def _decisions(plan: MergePlan, logs: Sequence[LogState], states: Sequence[CopyState]) -> Iterator[str]:
    """Yield a sentence for each decision that leaves out records."""
    leader = logs[plan.leader].path
    for index, state in enumerate(states):
        agreed, path = plan.agreed_ends[index], logs[index].path
        if agreed < state.end_offset:
            yield (
                f"{path}: offsets {agreed} to {state.end_offset - 1} are left out, because their leader "
                f"epochs differ from those of {leader}"
            )
        if state.doubtful is not None:
            yield f"{state.doubtful}; it counts as damaged"
        if logs[index].invalid_bytes and agreed == state.end_offset == plan.log_end_offset:
            yield (
                f"{path}: its last {logs[index].invalid_bytes} bytes, after offset {plan.log_end_offset}, "
                "are ignored: they are not a valid batch, as a crash leaves it"
            )
        if (state.high_watermark or 0) > plan.log_end_offset:
            yield (
                f"{path}: its high watermark is {state.high_watermark} (replication-offset-checkpoint), but "
                f"the merged log ends at offset {plan.log_end_offset}: committed records are missing"
            )
        if index in plan.unconnected:
            yield (
                f"{path}: its first offsets, from {state.start_offset} on, are left out, because no copy has "
                f"those between them and {plan.log_start_offset}; open this directory alone to read them"
            )
        missing = [span for span in state.missing if span.start_offset >= plan.log_start_offset]
        if missing and index == plan.leader:
            yield (
                f"{path}: offsets {missing[0].start_offset} to {missing[0].end_offset - 1} are missing; they "
                "are read from other copies, if any has them"
            )


def _held(state: CopyState, end_offset: int) -> list[OffsetSpan]:
    """Return the offsets up to `end_offset` (exclusive) for which a copy has segments, sorted."""
    held, start = [], state.start_offset
    for missing in (*state.missing, OffsetSpan(end_offset, end_offset)):
        held.append(OffsetSpan(start, min(missing.start_offset, end_offset)))
        start = missing.end_offset
    return [span for span in held if not span.is_empty]


def _join(
    plan: MergePlan, logs: Sequence[LogState], states: Sequence[CopyState], again: CopiesMerge
) -> JoinedSource:
    checkpoints = [log.checkpoints for log in logs]
    sources = [DirectorySource.as_part(log) for log in logs]
    known = [
        each.checkpointed_high_watermark
        for each in checkpoints
        if each.checkpointed_high_watermark is not None
    ]
    starts = [own.log_start_offset for own in checkpoints if own.log_start_offset is not None]
    is_live = any(own.live for own in checkpoints)
    # Bytes after the end of a live log may be those of a batch that is being written.
    last = states[plan.spans[-1].copy] if plan.spans else None
    has_damaged_end = not is_live and last is not None and last.has_damaged_end
    doubtful = last.doubtful if has_damaged_end and last is not None else None
    return JoinedSource(
        sources[plan.leader],
        tuple(
            LogPart(sources[part.copy], OffsetSpan(part.start_offset, part.end_offset)) for part in plan.spans
        ),
        tuple(
            LogPart(sources[copy], span)
            for copy in plan.ranking
            for span in _held(states[copy], plan.agreed_ends[copy])
        ),
        again.gaps,
        plan.log_start_offset,
        plan.log_end_offset,
        has_damaged_end,
        None if doubtful is None else doubtful.first_offset,
        PartitionCheckpoints(
            log_start_offset=max(starts, default=None),
            high_watermark=plan.high_watermark,
            checkpointed_high_watermark=max(known, default=None),
            live=is_live,
            clean_shutdown=checkpoints[plan.leader].clean_shutdown,
        ),
        states[plan.leader].history,
        again,
    )
