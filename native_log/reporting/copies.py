"""Describe the copies of partitions that several directories contain."""

from __future__ import annotations

import logging
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.log.changing_files import retry_changed
from native_log.log.replicas.plan import plan_merge
from native_log.log.replicas.state import read_state
from native_log.prefetch import map_together
from native_log.reporting.figures import CopyFigures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from native_log.log import PartitionLog
    from native_log.log.replicas.plan import CopyState
    from native_log.logdir import LogDir, PartitionDir

logger = logging.getLogger(__name__)


def describe_copies(
    log_dir: LogDir, partitions: Sequence[PartitionDir], problem_counts: Mapping[Path, int] | None
) -> tuple[CopyFigures, ...]:
    """Return the figures of all copies of the partitions that have several.

    Copies that cannot be opened are left out with a warning.

    Args:
        log_dir: the log directories.
        partitions: some of its partitions.
        problem_counts: how many problems each partition directory has; None: the logs were not verified.
    """
    copies = map_together(
        lambda partition: _copies_of(log_dir, partition, problem_counts),
        partitions,
        are_local=log_dir.is_local,
    )
    return tuple(chain.from_iterable(copies))


def _open(log_dir: LogDir, directory: PartitionDir) -> tuple[PartitionDir, PartitionLog, CopyState]:
    log = log_dir.open_copy(directory)
    return directory, log, read_state(log.state)


def _copies_of(
    log_dir: LogDir, partition: PartitionDir, problem_counts: Mapping[Path, int] | None
) -> list[CopyFigures]:
    directories = [copy for copy in log_dir.all_copies([partition]) if copy.kind is partition.kind]
    if len(directories) == 1:
        return []
    opened = []
    for directory in directories:
        try:
            opened.append(retry_changed(partial(_open, log_dir, directory)))
        except (KafkaLogError, OSError) as error:
            logger.warning("a copy is missing from the report: %s", error)
    if not opened:
        return []
    leader = plan_merge([state for *_, state in opened]).leader
    return [
        CopyFigures(
            f"{partition.topic}-{partition.partition}",
            str(directory.path.parent),
            log.log_end_offset,
            log.checkpointed_high_watermark,
            state.history.last_epoch,
            log.size_bytes,
            is_leading=index == leader,
            is_read=directory.path == partition.path,
            problems=None if problem_counts is None else problem_counts[directory.path],
        )
        for index, (directory, log, state) in enumerate(opened)
    ]
