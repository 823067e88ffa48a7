"""Encoded batches given other offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from native_log.errors import InvalidRecordError
from tests.builders.batches import v2
from tests.builders.legacy import message

from .conftest import KERNEL, REFERENCE, needs_kernel

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = pa.record_batch({"value": [b"v" * 100] * 1000})


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_patched_batches_are_those_encoded_with_the_offsets(impl, codec: str) -> None:
    staged = impl.encode(RECORDS, compression=codec, base_position=500)
    expected = impl.encode(RECORDS, compression=codec, base_offset=2**40, leader_epoch=9, base_position=500)
    for batches in (
        staged.batches,
        staged.batches.column("position"),
        staged.batches["position"].to_pylist(),
    ):
        data = bytearray(staged.data)
        impl.patch(data, batches, base_offset=2**40, leader_epoch=9, base_position=500)
        assert data == bytes(expected.data)
    data, some = bytearray(staged.data), staged.batches.slice(2, 2)
    impl.patch(data, some, base_offset=2**40, leader_epoch=9, base_position=500)
    patched = impl.scan(data).batches
    offsets = patched.column("baseOffset").to_pylist()
    assert [offset >= 2**40 for offset in offsets[:6]] == [False, False, True, True, False, False]


def test_prefixes_are_written_where_batches_lie_in_a_file(impl, tmp_path: Path) -> None:
    staged = impl.encode(RECORDS, base_position=500)
    expected = impl.encode(RECORDS, base_offset=2**40, leader_epoch=9, base_position=500)
    path = tmp_path / "file"
    path.write_bytes(b"." * 500 + staged.data)
    with path.open("r+b") as file:
        impl.write_prefixes(file.fileno(), expected.batches.slice(1), leader_epoch=9)
        first = staged.batches.column("sizeInBytes")[0].as_py()
        written = path.read_bytes()
        assert written[: 500 + first] == b"." * 500 + bytes(staged.data)[:first]
        assert written[500 + first :] == bytes(expected.data)[first:]
        impl.write_prefixes(file.fileno(), expected.batches.slice(0, 0), leader_epoch=1)
        impl.write_prefixes(file.fileno(), expected.batches.slice(0, 1), leader_epoch=9)
    assert path.read_bytes()[500:] == bytes(expected.data)
    with path.open("rb") as file, pytest.raises(OSError, match="Bad file descriptor"):
        impl.write_prefixes(file.fileno(), expected.batches, leader_epoch=9)


def test_all_are_patched_or_none(impl) -> None:
    good, old = v2(), message(1)
    for data, positions, base_offset in [
        (good + old + bytes(61), [0, len(good)], 1),
        (good, [0, 1], 1),
        (good, [0, len(good)], 1),
        (good, [0, -1], 1),
        (good + v2(offset=1), [0, len(good)], 2**63 - 1),
        (good, [0], -1),
    ]:
        changed = bytearray(data)
        with pytest.raises(InvalidRecordError, match="batch of magic 2"):
            impl.patch(changed, positions, base_offset=base_offset, leader_epoch=0)
        assert changed == data


def test_read_only_bytes_are_rejected(impl) -> None:
    with pytest.raises((ValueError, TypeError, BufferError)):
        impl.patch(v2(), [0], base_offset=1, leader_epoch=1)


@needs_kernel
@given(st.binary(max_size=200), st.lists(st.integers(-1, 200)), st.integers(-5, 5), st.integers(-1, 5))
@example(b"", [0, 0], 1, 0)  # each batch is changed once
def test_the_kernel_patches_as_the_reference(garbage, positions, base_offset: int, leader_epoch: int) -> None:
    results = []
    for impl in (KERNEL, REFERENCE):
        data = bytearray(v2() + garbage + v2(offset=3))
        try:
            impl.patch(data, positions, base_offset=base_offset, leader_epoch=leader_epoch)
            results.append(bytes(data))
        except InvalidRecordError as error:
            results.append(str(error))
    assert results[0] == results[1]
