"""scan_headers: the result of scan, from the headers of a file alone."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.batches import COMMIT, Rec, marker, v2
from tests.builders.legacy import message, wrapper
from tests.builders.strategies import logs, mutations
from tests.effort import examples

from .conftest import KERNEL, REFERENCE, needs_kernel
from .test_properties import joined, outcome, quick

if TYPE_CHECKING:
    from native_log.records.results import Scanned

LOG = (
    v2([Rec(value=b"v" * 300)] * 3, 0)
    + v2([Rec(value=b"v" * 300)] * 3, 3, "snappy")
    + marker(6, 7, COMMIT)
    + message(1, 7, value=b"v" * 200)
    + wrapper(0, [message(0, i) for i in (8, 9)], 9, "lz4")
    + v2([Rec(offset_delta=1)], 10, last_offset_delta=4)
)


def scanned(impl: Any, data: bytes, position: int = 0, end: int | None = None, **how: Any) -> Scanned:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        result = impl.scan_headers(
            file.fileno(), position, len(data) if end is None else end, **{"max_rows": 1000, **how}
        )
        assert os.fstat(file.fileno())  # it was left open
    return result


def test_it_returns_the_result_of_scan(impl) -> None:
    actual, expected = scanned(impl, LOG), impl.scan(LOG)
    assert actual.batches.equals(expected.batches)
    assert (actual.status, actual.position, actual.next_offset) == ("end", len(LOG), 15)
    positions = expected.batches.column("position").to_pylist()
    assert scanned(impl, LOG, positions[3]).batches.equals(expected.batches.slice(3))


@pytest.mark.parametrize("most", [1, 2, 5])
def test_it_ends_at_max_rows_and_continues_there(impl, most: int) -> None:
    position, parts = 0, []
    while (result := scanned(impl, LOG, position, max_rows=most)).status == "limit":
        assert result.batches.num_rows == most
        parts.append(result.batches)
        position = result.position
    assert result.status == "end"
    whole = pa.Table.from_batches([*parts, result.batches]).combine_chunks()
    assert whole.equals(pa.Table.from_batches([impl.scan(LOG).batches]))


def test_the_end_given_is_the_end(impl) -> None:
    first = impl.scan(LOG).batches.column("sizeInBytes")[0].as_py()
    for end, status, rows, position, needed in [
        (0, "end", 0, 0, 0),
        (10, "zeros", 0, 0, 0),  # of its offset
        (16, "partial", 0, 0, 17),
        (60, "partial", 0, 0, 61),
        (61, "end", 1, first, 0),  # the header is there, and that is all that is asked for
        (first, "end", 1, first, 0),
        (first + 17, "partial", 1, first, 61),
    ]:
        result = scanned(impl, LOG, end=end)
        assert (result.status, result.batches.num_rows) == (status, rows)
        assert (result.position, result.needed_bytes) == (position, needed)
    assert scanned(impl, LOG + bytes(500)).status == "zeros"
    assert scanned(impl, LOG + b"\7" * 500).damage.kind == "magic"


def test_a_file_that_ends_before_its_end(impl) -> None:
    with pytest.raises(EOFError):
        scanned(impl, LOG, end=len(LOG) + 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        impl.scan_headers(-1, 0, 100, max_rows=1)


@needs_kernel
@settings(quick, max_examples=examples(50))
@given(
    data=st.one_of(logs(4).map(joined), logs(4).map(joined).flatmap(mutations)),
    most=st.integers(0, 5),
    torn=st.integers(0, 90),
)
def test_any_bytes_are_scanned_as_by_scan(data: bytes, most: int, torn: int) -> None:
    how = {"end": max(0, len(data) - torn), "max_rows": most, "max_batch_bytes": 5000}
    kernel, reference = scanned(KERNEL, data, **how), scanned(REFERENCE, data, **how)
    assert outcome(kernel) == outcome(reference)
    assert kernel.batches.to_pylist() == reference.batches.to_pylist()


def test_it_returns_only_the_requested_columns(impl) -> None:
    columns = ["maxTimestamp", "compression", "baseOffset"]
    expected = impl.scan(LOG).batches.select(columns)
    assert impl.scan(LOG, columns=columns).batches.equals(expected)
    assert scanned(impl, LOG, columns=columns).batches.equals(expected)
    assert impl.scan(LOG, columns=[]).batches.num_columns == 0
    with pytest.raises(ValueError, match="unknown column"):
        impl.scan(LOG, columns=["offset"])
    with pytest.raises(ValueError, match="unknown column"):
        scanned(impl, LOG, columns=["offset"])
