"""Retention: old segments deleted by size, time and log start offset, and records deleted before an offset.

| module | |
|---|---|
| decisions | which segments go, and why the others stay: decisions |
| timestamps | a segment's largest timestamp, from its time index if that can be believed |
| plan | what retention comes to in one partition, looked at without a change, as plain values |
| removal | plans carried out: files renamed to `.deleted`, later unlinked; what must be saved before |
| local | `retain`, by this process |
| deletion | `delete_records` |
"""

from __future__ import annotations

from native_log.retention.enforcement import retain
from native_log.retention.plan import RETENTION_SCHEMA, RetentionPlan
from native_log.retention.record_deletion import DELETION_SCHEMA, delete_records

__all__ = ["DELETION_SCHEMA", "RETENTION_SCHEMA", "RetentionPlan", "delete_records", "retain"]
