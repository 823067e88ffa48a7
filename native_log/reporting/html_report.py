"""Make a report about log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import native_log
from native_log.arguments import optional_integer
from native_log.logdir import LogDir
from native_log.logdir.selected_partitions import select_partitions
from native_log.logdir.selection import PartitionSelection
from native_log.reporting.figures import Extent
from native_log.reporting.survey import survey
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from native_log.arguments import HighWatermark, PathLike
    from native_log.logdir.remote_storage import RemoteArguments
    from native_log.reporting.figures import ReportFigures
    from native_log.storage import StorageOptionsLike

_LIBRARIES = ("jinja2", "markupsafe", "matplotlib")


def report(
    path: PathLike | Iterable[PathLike],
    topics: str | Iterable[str] | None = None,
    *,
    exclude_topics: str | Iterable[str] = (),
    include_deleted: bool = False,
    high_watermark: HighWatermark = "auto",
    batches: bool = False,
    verify: bool = False,
    compaction: bool = False,
    retention: bool = False,
    now_ms: int | None = None,
    storage_options: StorageOptionsLike = None,
    on_progress: Callable[[int, int], None] | None = None,
    **remote: Unpack[RemoteArguments],
) -> str:
    """Return a report about log directories as one HTML page, which loads nothing and contains no records.

    By default, only file names, sizes, checkpoints, the ends of indexes, a few batch headers of each
    partition, samples of topics, and internal topics up to 256 MiB are read. The page states what was not
    examined. No file is changed.

    Args:
        path: log directories, or single partition directories.
        topics: report on these only; None: all, internal ones included.
        exclude_topics: do not report on these.
        include_deleted, high_watermark, storage_options, remote: see LogDir.
        batches: read the headers of all batches, and internal topics of any size.
        verify: check all batches, records, indexes and snapshots, as `native_log.verify` does.
        compaction: make a dry run of compaction, to see what it would free.
        retention: make a dry run of retention, to see what it would delete.
        now_ms: the time from which ages are measured, in epoch ms; None: now.
        on_progress: called with (steps done, total steps), from any thread.

    Raises:
        ModuleNotFoundError: Jinja2 or Matplotlib is not installed (the extra `kafkalog-spark[report]`).
        UnknownTopicOrPartitionError: a topic does not exist.
        FileNotFoundError, PermissionError, NotALogDirError, EmptyLogDirError: see LogDir.
    """
    render_page = _load_renderer()  # before the work: a library may be missing
    now = optional_integer("now_ms", now_ms)
    log_dir = LogDir(
        path,
        include_deleted=include_deleted,
        high_watermark=high_watermark,
        storage_options=storage_options,
        **remote,
    )
    partitions = select_partitions(log_dir, PartitionSelection.of(topics, exclude_topics))
    figures = survey(
        log_dir,
        partitions,
        Extent(batches, verify, compaction, retention),
        current_ms() if now is None else now,
        on_progress=on_progress,
    )
    return render_page(figures, native_log.__version__)


def _load_renderer() -> Callable[[ReportFigures, str], str]:
    try:
        from native_log.reporting.page import render_page
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        raise ModuleNotFoundError(
            "a report needs Jinja2 and Matplotlib: pip install 'jinja2>=3.1' 'matplotlib>=3.8'",
            name=error.name,
        ) from None
    return render_page
