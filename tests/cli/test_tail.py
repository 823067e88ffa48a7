from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.cli.tail import tail_start


@given(st.sets(st.integers(5, 40)), st.integers(0, 50))
def test_it_is_where_the_last_records_begin(offsets: set[int], count: int) -> None:
    def offsets_in(start: int, end: int) -> list[int]:
        return sorted(offset for offset in offsets if start <= offset < end)

    start = tail_start(offsets_in, 5, 41, count)
    assert offsets_in(start, 41) == sorted(offsets)[max(0, len(offsets) - count) :]


def test_all_offsets_need_no_reading() -> None:
    def offsets_in(start: int, end: int) -> list[int]:
        pytest.fail(f"offsets from {start} to {end} are read")

    assert tail_start(offsets_in, 5, 2**40, 2**63 - 1) == 5
    assert tail_start(offsets_in, 5, 2**40, 0) == 2**40
