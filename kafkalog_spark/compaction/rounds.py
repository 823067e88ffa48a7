"""How rounds over large partitions are planned, of what tasks tell of their parts."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import group_by_number, row_batch
from kafkalog_spark.compaction.messages import LargePartition, RoundPlan
from native_log.compaction.rounds import plan_round
from native_log.compaction.survey import Survey
from native_log.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkalog_spark.cluster import Row
    from kafkalog_spark.compaction.messages import PartSurvey, Settings


def plan_rounds(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """By number of partition, what is to be cleaned and what its parts tell, all in one task -> RoundPlan."""
    for number, asked in group_by_number(batches).items():
        yield row_batch(number, pickle.dumps(planned(asked, settings)))


def planned(asked: Sequence[Row], settings: Settings) -> RoundPlan:
    """From a LargePartition or a settled Round, then the PartSurveys of all parts, in order."""
    what, *of_parts = (pickle.loads(one.payload) for one in asked)  # noqa: S301 (the driver's, our tasks')
    told: list[PartSurvey] = of_parts
    error = next((one.error for one in told if one.error is not None), None)
    if error is not None:
        return RoundPlan(error=error)
    if any(one.has_transactions for one in told):
        return RoundPlan(has_transactions=True)
    null_keys = sum(one.null_keys for one in told)
    if not isinstance(what, LargePartition):
        return RoundPlan(what, null_keys)
    joined = Survey()
    for one in told:
        if one.survey is not None:
            joined.add(one.survey)
    try:
        log = what.directory.open()
        round = plan_round(log, what.found, what.policy.config, settings.now_ms, joined)
    except (KafkaLogError, OSError) as failure:
        return RoundPlan(error=str(failure))
    return RoundPlan(round, null_keys)
