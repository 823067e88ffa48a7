"""Retention: delete old segments by log start offset, size and time, and delete records before an offset.

| module | what it contains |
|---|---|
| decisions | Decisions: which segments are deleted, and why the others are kept. |
| plan | The plan for one partition, as plain values, and the result: one row for each segment. |
| execution | Carries plans out: segments are renamed to `.deleted` and removed later. |
| enforcement | `retain`, in this process. `kafkalog_spark.retain` does the same with Spark. |
| record_deletion | `delete_records`: moves the log start offset forward. |
"""

from __future__ import annotations

from native_log.retention.enforcement import retain
from native_log.retention.plan import RETENTION_SCHEMA, RetentionPlan
from native_log.retention.record_deletion import DELETION_SCHEMA, delete_records

__all__ = ["DELETION_SCHEMA", "RETENTION_SCHEMA", "RetentionPlan", "delete_records", "retain"]
