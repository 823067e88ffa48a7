"""Salvage: copy everything readable from damaged logs into a new log directory.

| module | contents |
|---|---|
| salvager | `salvage` |
| source | find the partitions of damaged log directories, whatever of their files can be read |
| reading | read the valid batches of a segment, and report the bytes between them |
| hiding_files | find files without records that hide the records of other files |
| source_log | a log to copy |
| partition | copy one partition |
| completion | add what a broker needs besides the batches: indexes, leader epochs, topic id |
| log_files | write the .log files of a copy |
| accounting | which offsets of a log were copied, and which are lost |
| transactions | the transactions whose outcome is unknown because bytes were lost |
| destination | build the new log directory under another name, and rename it at the end |
| report | the rows of the report |
"""

from __future__ import annotations

from native_log.salvaging.report import SALVAGE_SCHEMA
from native_log.salvaging.salvager import salvage

__all__ = ["SALVAGE_SCHEMA", "salvage"]
