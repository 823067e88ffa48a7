"""Tasks that rewrite groups of segments, without the records that do not survive."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import row_batch, rows
from kafkalog_spark.compaction.inspection import create_attempt_directory
from kafkalog_spark.compaction.messages import GroupResult
from kafkalog_spark.errors import visibility_check
from native_log.compaction.rewrite import rewrite_group
from native_log.compaction.statistics import GroupStatistics
from native_log.errors import KafkaLogError
from native_log.records import Survivors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkalog_spark.cluster import Row
    from kafkalog_spark.compaction.messages import RoundPlan, RunSettings

_MAX_BITMAPS = 64
"""How many bitmaps of survivors a group holds before it merges them into one."""


def rewrite_groups(batches: Iterator[pa.RecordBatch], settings: RunSettings) -> Iterator[pa.RecordBatch]:
    """Yield a GroupResult for each number of a group.

    Args:
        batches: the rows that `resolve` yields. All rows of a number are in the same task.
    """
    groups: dict[int, GroupInput] = {}
    for row in rows(batches):
        groups.setdefault(row.number, GroupInput()).add(row)
    while groups:
        number, group = groups.popitem()
        yield row_batch(number, pickle.dumps(group.rewrite(settings)))


@dataclass(slots=True)
class GroupInput:
    """What the rows of a group contain.

    Attributes:
        plan: the plan of the round, with this group alone.
        survivors: bitmaps whose union is the surviving offsets of the group.
        error: why bundles could not be merged.
    """

    plan: RoundPlan | None = None
    survivors: list[Survivors] = field(default_factory=list)
    error: str | None = None

    def add(self, row: Row) -> None:
        if row.note is not None:
            self.error = bytes(row.note).decode()
        elif row.part == 0:
            self.plan = pickle.loads(row.payload)  # noqa: S301 (written by our tasks)
        else:
            self.survivors.append(Survivors.from_bytes(row.payload))
            if len(self.survivors) >= _MAX_BITMAPS:
                self.survivors = [unite(self.survivors)]

    def rewrite(self, settings: RunSettings) -> GroupResult:
        """Rewrite the group into the staging directory; in a dry run, only compute the statistics."""
        plan = self.plan
        assert plan is not None
        error = plan.error or self.error
        if error is not None or plan.round is None:
            return GroupResult(GroupStatistics(), has_transactions=plan.has_transactions, error=error)
        round = plan.round
        (group,) = round.groups
        try:
            with visibility_check(round.source.path):
                attempt = create_attempt_directory(round.source.path, settings)
                stats = rewrite_group(round, group, unite(self.survivors), attempt)
        except (KafkaLogError, OSError) as failure:
            return GroupResult(GroupStatistics(), error=str(failure))
        return GroupResult(stats, None if attempt is None else attempt.name, plan.null_keys)


def unite(bitmaps: Sequence[Survivors]) -> Survivors:
    return bitmaps[0].union(*bitmaps[1:]) if bitmaps else Survivors()
