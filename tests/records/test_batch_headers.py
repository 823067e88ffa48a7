"""BatchHeaders: the rows of scan, for several buffers at once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.batches import COMMIT, Rec, marker, v2
from tests.builders.legacy import message, wrapper
from tests.builders.strategies import logs, mutations

from .conftest import KERNEL, REFERENCE, needs_kernel
from .test_properties import joined, quick

LOG = (
    v2([Rec(value=b"v" * 300)] * 3, 0)
    + message(1, 3, value=b"v" * 200)
    + wrapper(0, [message(0, i) for i in (4, 5)], 5, "lz4")
    + v2([Rec(offset_delta=1)], 6, last_offset_delta=4)
)


def test_of_several_buffers(impl) -> None:
    expected = impl.scan(LOG).batches
    second, third, _ = positions = expected.column("position").to_pylist()[1:]
    headers = impl.BatchHeaders()
    assert (len(headers), headers.has_transactions, headers.last_offsets) == (0, False, None)
    headers.add(LOG, end=second)
    headers.add(LOG[second:], base_position=second, end=positions[-1] + 1)
    assert (len(headers), headers.has_transactions, headers.last_offsets) == (4, False, (2, 10))
    assert headers.take().equals(expected)
    assert (len(headers), headers.last_offsets) == (0, None)
    headers.add(LOG[third:], base_position=third)
    assert headers.take().equals(expected.slice(2))
    assert headers.take().equals(expected.slice(0, 0))


@pytest.mark.parametrize(
    "transactional", [marker(11, 7, COMMIT), v2([Rec()], 11, producer_id=7, attributes=16)]
)
def test_has_transactions(impl, transactional: bytes) -> None:
    headers = impl.BatchHeaders()
    headers.add(LOG)
    headers.add(transactional, base_position=len(LOG))
    assert headers.has_transactions
    headers.take()
    assert not headers.has_transactions


@needs_kernel
@quick
@given(st.one_of(logs(4).map(joined), logs(4).map(joined).flatmap(mutations)), st.data())
def test_kernel_and_reference_agree_on_damaged_logs(blob: bytes, data: st.DataObject) -> None:
    end = data.draw(st.none() | st.integers(0, len(blob)))
    results = []
    for impl in (KERNEL, REFERENCE):
        headers = impl.BatchHeaders()
        headers.add(blob, end=end)
        results.append(
            (len(headers), headers.has_transactions, headers.last_offsets, headers.take().to_pylist())
        )
    assert results[0] == results[1]
    expected = pa.Table.from_batches([REFERENCE.scan(blob).batches])
    if end is not None:
        expected = expected.filter(pc.less(expected.column("position"), end))
    assert results[0][3] == expected.to_pylist()
