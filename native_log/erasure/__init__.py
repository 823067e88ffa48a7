"""Erasure: records that were asked to be forgotten, taken out of logs.

| module | |
|---|---|
| selection | which records: by key, beginning of the key, or header |
| search | where they lie in a log, and what the report says of them |
| rewriting | segments written without them, all other offsets kept |
| copies | where else they may lie |
| local | `erase` |
"""

from __future__ import annotations

from native_log.erasure.eraser import erase
from native_log.erasure.search import ERASURE_SCHEMA

__all__ = ["ERASURE_SCHEMA", "erase"]
