"""One segment of a log: file names, indexes, lookups and scans (Kafka: LogSegment)."""

from __future__ import annotations

from native_log.segment.damage import DamagedRange
from native_log.segment.health import IndexHealth
from native_log.segment.lookup import SegmentLookup
from native_log.segment.segment import LogSegment
from native_log.segment.transaction_index import AbortedTxn

__all__ = ["AbortedTxn", "DamagedRange", "IndexHealth", "LogSegment", "SegmentLookup"]
