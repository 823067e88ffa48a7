"""find_invalid_records returns the first batch with invalid records, in both implementations."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples

from .build import Rec, message, v2, wrapper
from .conftest import KERNEL, REFERENCE, needs_kernel
from .logs import Batch, logs, mutations
from .test_properties import joined, quick

RECS = [Rec()] * 3


@quick
@given(log=logs())
def test_a_log_as_it_was_written_is_valid(impl, log: list[Batch]) -> None:
    assert impl.find_invalid_records(joined(log), previous=-1) is None


@needs_kernel
@settings(quick, max_examples=examples(150))
@given(data=logs(3).map(joined).flatmap(mutations), previous=st.sampled_from([-1, 4, 5, 2**62]))
@example(data=v2(RECS, offset=2**63 - 3) + v2(RECS, offset=2**63 - 1), previous=-1)
def test_kernel_and_reference_find_the_same(data: bytes, previous: int) -> None:
    positions = [
        impl.find_invalid_records(data, previous=previous, base_position=7) for impl in (KERNEL, REFERENCE)
    ]
    assert positions[0] == positions[1]


@pytest.mark.parametrize(
    "invalid",
    [
        v2(RECS, 2),  # not after the batch before
        v2([Rec(), Rec(offset_delta=0)], 3, last_offset_delta=1),
        v2([Rec(), Rec(offset_delta=5)], 3, last_offset_delta=4),
        v2([Rec(offset_delta=-1), Rec(offset_delta=1)], 4),
        v2(RECS, 3, record_count=4),
        v2(RECS, 3, attributes=5),
        message(1, 2),
        wrapper(1, [message(1, 0), message(1, 0)], 4, "gzip"),
        v2(RECS, 3)[:-1],
        b"\0" * 100,
    ],
)
def test_invalid_records(impl, invalid: bytes) -> None:
    valid = v2(RECS)
    assert impl.find_invalid_records(valid + invalid, previous=-1, base_position=9) == 9 + len(valid)
