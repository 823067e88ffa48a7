"""How rounds over large partitions are planned, of what tasks tell of their parts."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import group_by_number, row_batch
from kafkalog_spark.compaction.values import Planned, ToClean
from native_log.cleaner.plan import plan_round
from native_log.cleaner.survey import Survey
from native_log.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkalog_spark.cluster import Row
    from kafkalog_spark.compaction.values import Settings, Told


def plan_rounds(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """By number of partition, what is to be cleaned and what its parts tell, all in one task -> Planned."""
    for number, asked in group_by_number(batches).items():
        yield row_batch(number, pickle.dumps(planned(asked, settings)))


def planned(asked: Sequence[Row], settings: Settings) -> Planned:
    """Of ToClean or, where that is settled, a Round, and behind it what all parts tell (Told), in order."""
    what, *of_parts = (pickle.loads(one.payload) for one in asked)  # noqa: S301 (the driver's, our tasks')
    told: list[Told] = of_parts
    error = next((one.error for one in told if one.error is not None), None)
    if error is not None:
        return Planned(error=error)
    if any(one.has_transactions for one in told):
        return Planned(has_transactions=True)
    null_keys = sum(one.null_keys for one in told)
    if not isinstance(what, ToClean):
        return Planned(what, null_keys)
    joined = Survey()
    for one in told:
        if one.survey is not None:
            joined.add(one.survey)
    try:
        log = what.directory.open()
        round = plan_round(log, what.found, what.policy.config, settings.now_ms, joined)
    except (KafkaLogError, OSError) as failure:
        return Planned(error=str(failure))
    return Planned(round, null_keys)
