"""One partition's log: load, bounds, ranges, reading, transactions."""

from __future__ import annotations

from native_log.log.checkpoints import PartitionCheckpoints
from native_log.log.log_range import LogRange
from native_log.log.partition_log import PartitionLog
from native_log.log.pieces import Piece

__all__ = ["LogRange", "PartitionCheckpoints", "PartitionLog", "Piece"]
