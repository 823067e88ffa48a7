"""A stream that is killed before its first commit. Another test, in tests/broker, kills Spark."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from killing import survives

from kafkalog_spark.read.offset_state import INITIAL_OFFSETS
from native_log import LogDir

from .read_limits import needs_read_limits
from .stream_query import StreamQuery

if TYPE_CHECKING:
    from pathlib import Path


@needs_read_limits
def test_a_stream_from_latest_continues_where_it_started(tmp_path: Path) -> None:
    """Spark asks for the initial offset again, since it has committed nothing."""
    was_started = []
    with LogDir.create(tmp_path / "logs") as log_dir:
        log_dir.create_topic("t")
    for step in count():
        state = tmp_path / f"state-{step}"
        options = {"path": str(tmp_path / "logs"), "offsetStateLocation": str(state)}
        survived = survives(lambda options=options: StreamQuery(**options).plan(), step)
        # initialOffset returns after this file was written. Before that, the query has not started.
        was_started.append((state / INITIAL_OFFSETS).exists())
        with LogDir(tmp_path / "logs") as log_dir:
            first = log_dir.partition("t", 0).append(pa.record_batch({"value": [b"x", b"y"]}))
        batch = StreamQuery(**options).trigger()
        assert (batch.rows if batch else {}) == ({("t", 0): [first, first + 1]} if was_started[-1] else {})
        if survived:
            break
    assert was_started == sorted(was_started)
    assert was_started[:2] == [False, False] and was_started[-2:] == [True, True]
