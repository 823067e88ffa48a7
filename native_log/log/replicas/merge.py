"""Merge the copies of a log: inspect them, plan, and report what was decided."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.log.replicas.copies import inspect_copy
from native_log.log.replicas.merged_source import merged_source
from native_log.log.replicas.plan import plan_merge
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log.local_log import LocalLog
    from native_log.log.replicas.copies import Damage, InspectedCopy
    from native_log.log.replicas.merged_source import MergedSource
    from native_log.log.replicas.plan import MergePlan

logger = logging.getLogger(__name__)


def merge(
    logs: Sequence[LocalLog], end_offsets: Sequence[int | None], is_compacted: bool = True
) -> MergedSource:
    """Read all batches of the copies, and return the merged log.

    A warning is logged for each decision that leaves out records or replaces damaged ones.

    Args:
        logs: the copies, at least one.
        end_offsets: for each copy, the offset from which on an unfinished write left records; None: none.
        is_compacted: see inspect_copy.

    Raises:
        KafkaLogError: the copies have different topic ids.
        OSError: a file cannot be read.
    """
    _check_topic_ids(logs)
    with ThreadPoolExecutor(min(available_cores(), len(logs)), "log-inspection") as pool:
        copies = list(pool.map(inspect_copy, logs, end_offsets, repeat(is_compacted)))
    plan = plan_merge([copy.state for copy in copies])
    source = merged_source(plan, copies)
    _report(plan, copies)
    return source


def _check_topic_ids(logs: Sequence[LocalLog]) -> None:
    ids = {log.topic_id: log for log in logs if log.topic_id is not None}
    if len(ids) > 1:
        (first_id, first), (other_id, other) = list(ids.items())[:2]
        raise KafkaLogError(
            f"expected copies of one topic, found topic id {other_id}, but {first_id} in {first.path}: the "
            "topic was deleted and created again; give only the directories of one topic",
            path=other.path,
        )


def _report(plan: MergePlan, copies: Sequence[InspectedCopy]) -> None:
    leader = copies[plan.leader].log.path
    for index, copy in enumerate(copies):
        state, agreed, path = copy.state, plan.agreed_ends[index], copy.log.path
        if agreed < state.end_offset:
            logger.warning(
                "%s: offsets %d to %d are left out, because their leader epochs differ from those of %s",
                *(path, agreed, state.end_offset - 1, leader),
            )
        if (state.high_watermark or 0) > plan.log_end_offset:
            logger.warning(
                "%s: its high watermark is %d (replication-offset-checkpoint), but the merged log ends at "
                "offset %d: committed records are missing",
                *(path, state.high_watermark, plan.log_end_offset),
            )
        if index in plan.unconnected:
            logger.warning(
                "%s: its first offsets, from %d on, are left out, because no copy has those between them and "
                "%d; open this directory alone to read them",
                *(path, state.start_offset, plan.log_start_offset),
            )
        beyond = [damage for damage in copy.damaged if damage.lost.start_offset >= plan.log_end_offset]
        if beyond:
            logger.warning("the end of %s is damaged, and no copy has its records: %s", path, beyond[0].bytes)
        missing = [span for span in copy.missing if span.start_offset >= plan.log_start_offset]
        if missing and index == plan.leader:
            logger.warning(
                "%s: offsets %d to %d are missing; they are read from other copies, if any has them",
                *(path, missing[0].start_offset, missing[0].end_offset - 1),
            )
        replaced = [damage for damage in copy.damaged if _is_replaced(damage, index, plan)]
        if replaced:
            logger.warning(
                "%s: damaged bytes are read from other copies: %d range(s), the first one is %s",
                *(path, len(replaced), replaced[0].bytes),
            )


def _is_replaced(damage: Damage, copy: int, plan: MergePlan) -> bool:
    """Return whether offsets in damaged bytes of a copy are read from other copies only."""
    lost = damage.lost
    overlapping = [
        span
        for span in plan.spans
        if span.start_offset < lost.end_offset and lost.start_offset < span.end_offset
    ]
    return bool(overlapping) and all(span.copy != copy for span in overlapping)
