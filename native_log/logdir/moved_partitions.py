"""The high watermarks of partitions that a broker moves between its log directories (KIP-113).

A broker saves high watermarks every five seconds, to one log directory after the other. (Kafka:
ReplicaManager.checkpointHighWatermarks) Until the next time, the entry of a moved partition is still in the
directory where the partition was. The new directory may have an entry too, of the time when the broker was
copying the log: it is 0 at first. While the broker saves high watermarks, there may be no entry.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from native_log.checkpoints.names import METADATA_TOPIC
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, read_offsets
from native_log.logdir.directory_state import group_by_broker
from native_log.logdir.discovery import keys_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from native_log.checkpoints.offset_checkpoints import Offsets
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import Discovery

_PAUSES_SECONDS = (0.01, 0.02, 0.04, 0.08)
"""A broker takes milliseconds to save the high watermarks of all its log directories. A partition without one
after these pauses was created a few seconds ago."""

_MAX_AGE_MS = 10_000
"""How much older than the newest checkpoint another one may be. A broker does not save high watermarks to a
directory that has no partitions. Entries that are left there may be of topics that were deleted."""


def broker_high_watermarks(
    states: Sequence[DirectoryState], discoveries: Collection[Discovery]
) -> dict[Path, Offsets]:
    """Return the high watermarks in all log directories of a broker, by the path of each of them.

    Args:
        states: the log directories. Those of a broker that has no others are left out.
        discoveries: the partitions in them.
    """
    known: dict[Path, Offsets] = {}
    for group in group_by_broker(states):
        if len(group) > 1:
            paths = {state.path for state in group}
            found = [discovery for discovery in discoveries if discovery.log_dir in paths]
            known |= dict.fromkeys(paths, _high_watermarks(group, found))
    return known


def _high_watermarks(group: Sequence[DirectoryState], discoveries: Iterable[Discovery]) -> Offsets:
    """Return the high watermarks in all log directories of a broker. Wait for those that it is saving."""
    known = _newest(group, [state.checkpoints.high_watermarks for state in group])
    if not any(state.lock_holder is not None and state.has_high_watermarks for state in group):
        return known
    partitions = {key for key in keys_in(discoveries) if key[0] != METADATA_TOPIC}
    for pause in _PAUSES_SECONDS:
        if known.keys() >= partitions:
            break
        time.sleep(pause)
        known |= _newest(
            group, [read_offsets(state.folder, REPLICATION_OFFSET_CHECKPOINT) for state in group]
        )
    return known


def _newest(group: Iterable[DirectoryState], checkpoints: Iterable[Mapping[tuple[str, int], int]]) -> Offsets:
    """Return the greatest entry for each partition: all of them are lower bounds of its high watermark.

    An entry in an old checkpoint counts only if there is no other.
    """
    times_ms = [_saved_at_ms(state) for state in group]
    oldest_ms = max(times_ms) - _MAX_AGE_MS
    old: Offsets = {}
    recent: Offsets = {}
    for time_ms, entries in zip(times_ms, checkpoints, strict=True):
        known = old if time_ms < oldest_ms else recent
        known |= {key: max(offset, known.get(key, 0)) for key, offset in entries.items()}
    return old | recent


def _saved_at_ms(state: DirectoryState) -> int:
    """Return when high watermarks were last saved to a log directory, in epoch ms; 0: never."""
    try:
        with state.storage.open(f"{state.folder}/{REPLICATION_OFFSET_CHECKPOINT}") as file:
            return file.mtime_ms
    except FileNotFoundError:
        return 0
