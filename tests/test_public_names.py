"""The names that `native_log` and `native_log.producer` export."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import native_log
import native_log.producer
from native_log import LogDir, PartitionLog
from native_log.log import partition_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PUBLIC = (*native_log.__all__, *native_log.producer.__all__)
_PRIVATE = ("cli", "kernel", "_kernel", "__main__")
_NAME = re.compile(r"\b(?:[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Z]+(?:_[A-Z]+)*_SCHEMA)\b")


def our_names() -> set[str]:
    """Return the classes and schemas that any module of the package defines."""
    public = set()
    for module in pkgutil.walk_packages(native_log.__path__, "native_log."):
        if module.name.split(".")[1] in _PRIVATE:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            is_ours = inspect.isclass(value) and value.__module__.startswith("native_log")
            if not name.startswith("_") and (is_ours or name.endswith("_SCHEMA")):
                public.add(name)
    return public


def public_docstrings() -> Iterator[tuple[str, str]]:
    for name in PUBLIC:
        value = getattr(native_log.producer if name in native_log.producer.__all__ else native_log, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        yield name, inspect.getdoc(value) or ""
        if inspect.isclass(value):
            for member, what in inspect.getmembers(value):
                if not member.startswith("_"):
                    yield f"{name}.{member}", _docstring(what)


def _docstring(member: Any) -> str:
    is_code = callable(member) or isinstance(member, property)
    return (inspect.getdoc(member) or "") if is_code else ""


def test_every_type_that_docstrings_name_is_exported() -> None:
    ours = our_names()
    assert {"LogRange", "LogConfig", "RECORD_SCHEMA"} <= ours
    missing = {
        (where, name)
        for where, text in public_docstrings()
        for name in _NAME.findall(text)
        if name in ours and name not in PUBLIC
    }
    assert not missing


def test_completion_of_a_log_shows_what_users_need(tmp_path: Path) -> None:
    with LogDir.create(tmp_path / "logs") as log_dir:
        log_dir.create_topic("t", 1)
        log = log_dir.partition("t", 0)
    shown = {name for name in dir(log) if not name.startswith("_")}
    assert shown == {
        *("append", "append_batches", "batches", "checkpointed_high_watermark", "close", "config"),
        *("end_offset", "flush", "follow", "high_watermark", "last_stable_offset", "leader_epochs"),
        "local_log_start_offset",
        *("log_end_offset", "log_start_offset", "missing_end", "missing_segments"),
        *("missing_start", "offset_for_max_timestamp", "offset_for_timestamp"),
        *("open", "partition", "path", "range", "read", "reopen", "scan", "segments", "size_bytes", "topic"),
        *("topic_id", "transactions"),
    }


def test_names_that_completion_hides_exist(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path)
    assert [name for name in partition_log._INTERNAL if not hasattr(log, name)] == []
