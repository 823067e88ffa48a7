"""Tasks that rewrite: a group of segments each, with the offsets that survive in it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import row_batch, rows
from kafkalog_spark.compaction.inspection import staging
from kafkalog_spark.compaction.merge import UNITED_AT_ONCE, united
from kafkalog_spark.compaction.messages import GroupResult
from kafkalog_spark.errors import visibility_check
from native_log.compaction.rewrite import rewrite_group
from native_log.compaction.statistics import GroupStatistics
from native_log.errors import KafkaLogError
from native_log.records import Survivors

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.cluster import Row
    from kafkalog_spark.compaction.messages import RoundPlan, Settings


@dataclass(slots=True)
class _Group:
    """What has come for a group so far."""

    plan: RoundPlan | None = None
    found: list[Survivors] = field(default_factory=list)
    error: str | None = None

    def take(self, told: Row) -> None:
        if told.note is not None:
            self.error = bytes(told.note).decode()
        elif told.part == 0:
            self.plan = pickle.loads(told.payload)  # noqa: S301 (of our own tasks)
        else:
            self.found.append(Survivors.from_bytes(told.payload))
            if len(self.found) >= UNITED_AT_ONCE:
                self.found = [united(self.found)]

    def rewritten(self, settings: Settings) -> GroupResult:
        plan = self.plan
        assert plan is not None
        error = plan.error or self.error
        if error is not None or plan.round is None:
            return GroupResult(GroupStatistics(), has_transactions=plan.has_transactions, error=error)
        round = plan.round
        (group,) = round.groups
        try:
            with visibility_check(round.path):
                attempt = staging(round.path, settings)
                stats = rewrite_group(round, group, united(self.found), attempt)
        except (KafkaLogError, OSError) as failure:
            return GroupResult(GroupStatistics(), error=str(failure))
        return GroupResult(stats, None if attempt is None else attempt.name, plan.null_keys)


def rewrite_groups(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """By number of group, what is planned for it (part 0) and its survivors (the other parts), all in one
    task -> a GroupResult each."""
    groups: dict[int, _Group] = {}
    for told in rows(batches):
        groups.setdefault(told.number, _Group()).take(told)
    while groups:
        number, group = groups.popitem()
        yield row_batch(number, pickle.dumps(group.rewritten(settings)))
