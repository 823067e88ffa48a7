"""Erasure: remove selected records from logs, for example after a request to be forgotten.

| module | what it contains |
|---|---|
| eraser | `erase`. |
| selection | Selects records by key, key prefix or header. |
| search | Searches a log for the selected records, and produces the report's rows. |
| rewrite | Rewrites a segment without the selected records. All other records keep their offsets. |
| copies | Lists other places in the log directories that may contain copies. |
"""

from __future__ import annotations

from native_log.erasure.eraser import erase
from native_log.erasure.search import ERASURE_SCHEMA

__all__ = ["ERASURE_SCHEMA", "erase"]
