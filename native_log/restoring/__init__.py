"""Restore: copy logs from anywhere into a log directory that a broker loads.

| module | contents |
|---|---|
| restorer | `restore` |
| requested_range | the offsets of a log that are restored |
| copying | copy the batches of one log into a new partition directory |
| destination | the log directory: what is there, and how finished partitions get there |
"""

from __future__ import annotations

from native_log.restoring.restorer import RESTORE_SCHEMA, restore

__all__ = ["RESTORE_SCHEMA", "restore"]
