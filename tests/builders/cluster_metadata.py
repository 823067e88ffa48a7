"""Write cluster metadata as a controller does."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log import LogDir
from native_log.config import LogConfig
from native_log.logdir.create import create_partitions, random_uuid

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, END, ABORT = b"\1\x17\0\0\0", b"\1\x18\0\0", b"\1\x19\0\0\0"
"""Records that begin, end and abort a transaction, in a frame: frame version, api key, version."""


def _string(text: str | None) -> bytes:
    return b"\0" if text is None else bytes([len(text) + 1]) + text.encode()


def _uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def topic(name: str, topic_id: str) -> bytes:
    return b"\1\2\0" + _string(name) + _uuid(topic_id) + b"\0"


def removed(topic_id: str) -> bytes:
    return b"\1\x09\0" + _uuid(topic_id) + b"\0"


def config(resource: str, name: str, value: str | None, *, kind: int = 2) -> bytes:
    """Return a record that sets a configuration of a topic (2) or a broker (4)."""
    return b"\1\4\0" + kind.to_bytes(1, "big") + _string(resource) + _string(name) + _string(value) + b"\0"


def write(log_dir: Path, *records: bytes) -> None:
    """Write a metadata log, or append to it."""
    if not (log_dir / "__cluster_metadata-0").exists():
        create_partitions([log_dir], "__cluster_metadata", random_uuid(), LogConfig())
    with LogDir(log_dir).partition("__cluster_metadata", 0) as log:
        log.append(pa.record_batch({"value": list(records)}))


def store(log_dir: Path, name: str, settings: dict[str, str]) -> None:
    """Write the metadata of an existing topic, with its id."""
    topic_id = LogDir(log_dir).partition(name, 0).topic_id
    assert topic_id is not None
    write(log_dir, topic(name, topic_id), *(config(name, *item) for item in settings.items()))
