"""Compaction: of each key only the newest record is left, as a broker's cleaner leaves it.

| module | |
|---|---|
| eligibility | what may be cleaned, whether it is worth it, which segments become one: decisions |
| verdicts | what becomes of each batch, by its header: decisions |
| plan | a round over one log, as plain values |
| survey, checks | what headers tell, and whether they can be believed |
| survivors | which records survive, within a bound of memory |
| rewriting, segment_output | keys gathered, groups rewritten, the files written |
| swap | new segments in the place of old ones, crash-safe |
| deletion | old segments deleted of what a cleaning left |
| local | `compact`, by this process; `kafkalog_spark.compact` is the same with Spark |
"""

from __future__ import annotations

from native_log.compaction.compactor import compact
from native_log.compaction.statistics import STATISTICS_SCHEMA, PartitionStatistics

__all__ = ["STATISTICS_SCHEMA", "PartitionStatistics", "compact"]
