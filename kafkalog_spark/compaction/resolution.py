"""Tasks that resolve keys and plan rounds.

A task merges the packed keys of a bundle into the offsets that survive. Another task plans the round of a
partition from the headers that were surveyed while its keys were collected.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import group_by_number, row_batch
from kafkalog_spark.compaction.exchange import packs_by_bucket
from kafkalog_spark.compaction.messages import LargePartition, RoundPlan
from native_log.compaction.rounds import plan_round
from native_log.compaction.survey import Survey
from native_log.errors import KafkaLogError
from native_log.log import PartitionLog
from native_log.records import merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkalog_spark.cluster import Row
    from kafkalog_spark.compaction.messages import CollectionReport, RunSettings


@dataclass(frozen=True, slots=True)
class RoundLayout:
    """How the bundles and groups of a round are numbered among those of the run.

    Attributes:
        first_bundle, first_group: the numbers of the round's first bundle and first group.
        bounds: the base offsets of the round's groups, and the end offset of the round.
    """

    first_bundle: int
    first_group: int
    bounds: tuple[int, ...]


def resolve(
    batches: Iterator[pa.RecordBatch], settings: RunSettings, layouts: Sequence[RoundLayout], bundles: int
) -> Iterator[pa.RecordBatch]:
    """Merge bundles into survivors, and plan rounds.

    Args:
        batches: rows with the numbers 0 to `bundles` - 1 contain Bundles. Rows with the number `bundles` + i
            contain what `plan_large_round` needs for round i. All rows of a number are in the same task.
        layouts: of all rounds of the run.
        bundles: the number of bundles in the run.

    Yields:
        Rows by number of group. Part 0 is the RoundPlan, with that group alone. The other parts are survivors
        of the group (`Survivors.to_bytes`), or notes that contain an error.
    """
    first_bundles = [layout.first_bundle for layout in layouts]
    for number, group in group_by_number(batches).items():
        if number < bundles:
            layout = layouts[bisect_right(first_bundles, number) - 1]
            yield from _merge_bundle(number, group, layout)
        else:
            layout = layouts[number - bundles]
            yield from _divide_plan(plan_large_round(group, settings), layout)


def _merge_bundle(number: int, bundle_rows: Sequence[Row], layout: RoundLayout) -> Iterator[pa.RecordBatch]:
    bundles = [pickle.loads(row.payload) for row in bundle_rows]  # noqa: S301 (written by our tasks)
    try:
        survivors = merge(packs_by_bucket(bundles))
    except OSError as error:
        yield row_batch(layout.first_group, None, number + 1, str(error).encode())
        return
    for group, (start, end) in enumerate(pairwise(layout.bounds), layout.first_group):
        group_survivors = survivors.between(start, end)
        if len(group_survivors):
            yield row_batch(group, group_survivors.to_bytes(), number + 1)


def _divide_plan(plan: RoundPlan, layout: RoundLayout) -> Iterator[pa.RecordBatch]:
    """Yield the plan once for each group, with that group alone."""
    *bases, _ = layout.bounds
    if plan.round is None:
        plans = [plan] * len(bases)
    elif [group.base_offset for group in plan.round.groups] != bases:
        error = "its segments changed during the compaction; stop the program that changes them"
        plans = [RoundPlan(error=error)] * len(bases)
    else:
        plans = [
            RoundPlan(replace(plan.round, groups=(group,), aborted=b""), 0 if index else plan.null_keys)
            for index, group in enumerate(plan.round.groups)
        ]
    for group, group_plan in enumerate(plans, layout.first_group):
        yield row_batch(group, pickle.dumps(group_plan))


def plan_rounds(batches: Iterator[pa.RecordBatch], settings: RunSettings) -> Iterator[pa.RecordBatch]:
    """Yield a RoundPlan for each number, from the rows that `plan_large_round` needs.

    All rows of a number are in the same task.
    """
    for number, group in group_by_number(batches).items():
        yield row_batch(number, pickle.dumps(plan_large_round(group, settings)))


def plan_large_round(group: Sequence[Row], settings: RunSettings) -> RoundPlan:
    """Plan the round over a large partition.

    Args:
        group: the first row contains the LargePartition, or the Round if it is planned already. The other
            rows contain the CollectionReports of the whole log, in offset order.
    """
    subject, *reports = (pickle.loads(row.payload) for row in group)  # noqa: S301 (written by us)
    collected: list[CollectionReport] = reports
    error = next((report.error for report in collected if report.error is not None), None)
    if error is not None:
        return RoundPlan(error=error)
    if any(report.has_transactions for report in collected):
        return RoundPlan(has_transactions=True)
    null_keys = sum(report.null_keys for report in collected)
    if not isinstance(subject, LargePartition):
        return RoundPlan(subject, null_keys)
    survey = Survey()
    for report in collected:
        if report.survey is not None:
            survey.extend(report.survey)
    try:
        log = PartitionLog(subject.directory.open())
        round = plan_round(log, subject.cleanable, subject.policy.config, settings.now_ms, survey)
    except (KafkaLogError, OSError) as failure:
        return RoundPlan(error=str(failure))
    return RoundPlan(round, null_keys)
