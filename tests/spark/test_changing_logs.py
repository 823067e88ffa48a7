"""Plans of batch reads whose logs a broker changes just then."""

from __future__ import annotations

import shutil
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from kafkalog_spark.errors import DataLossError
from kafkalog_spark.options.read import parse_read_options
from kafkalog_spark.read.plan import plan_splits
from native_log import LogDir
from tests.builders.copies import batches, compact, delete_segment, rows, rows_of, write_copy
from tests.builders.interruptions import after_next_call

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = batches(0, 20)


def start_over(directory: Path) -> None:
    """Replace all segments, as a follower does that was too far behind."""
    shutil.rmtree(directory)
    write_copy(directory.parent, WHOLE[15:])


CHANGES = {
    "delete": (partial(delete_segment, base_offset=0), rows_of(WHOLE[5:])),
    "compact": (partial(compact, kept=WHOLE[1:10:2], merged=15), rows_of([*WHOLE[1:10:2], *WHOLE[10:]])[1:]),
    "start over": (start_over, rows_of(WHOLE[15:])),
}
"""What happens, and the rows from offset 4 on that are left."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_read_is_planned_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_copy(tmp_path, WHOLE, rolls=[15, 30])
    change, expected = CHANGES[name]
    changes = after_next_call(monkeypatch, LogDir, "open_logs", partial(change, tmp_path / "t-0"))
    options = {"path": str(tmp_path), "startingOffsets": '{"t": {"0": 4}}'}
    planned = plan_splits(parse_read_options({**options, "failOnDataLoss": "false"}))
    assert not changes
    parts = (part for ranges in planned for part in ranges)
    assert list(chain.from_iterable(rows(part.read(["offset", "value"])) for part in parts)) == expected
    if name != "compact":
        with pytest.raises(DataLossError, match="COULD_NOT_READ_OFFSET_RANGE"):
            plan_splits(parse_read_options(options))
