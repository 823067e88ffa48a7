"""The high watermarks of partitions that a broker moves between its log directories (KIP-113).

A broker saves high watermarks every five seconds, to one log directory after the other. Until the next time,
the high watermark of a moved partition is still in the directory where the partition was. While the broker
saves high watermarks, it may be in none. (Kafka: ReplicaManager.checkpointHighWatermarks)
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from native_log.checkpoints.names import METADATA_TOPIC
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, read_offsets
from native_log.logdir.directory_state import group_by_broker
from native_log.logdir.discovery import keys_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from native_log.checkpoints.offset_checkpoints import Offsets
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import Discovery

_PAUSES_SECONDS = (0.01, 0.02, 0.04, 0.08)
"""A broker takes milliseconds to save the high watermarks of all its log directories. A partition without one
after these pauses was created a few seconds ago."""


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
    known: Offsets = {}
    for state in group:
        known |= state.checkpoints.high_watermarks
    if not any(state.lock_holder is not None and state.has_high_watermarks for state in group):
        return known
    partitions = {key for key in keys_in(discoveries) if key[0] != METADATA_TOPIC}
    for pause in _PAUSES_SECONDS:
        if known.keys() >= partitions:
            break
        time.sleep(pause)
        for state in group:
            known |= read_offsets(state.folder, REPLICATION_OFFSET_CHECKPOINT)
    return known
