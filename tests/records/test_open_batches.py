"""Records of a producer, appended to open batches."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest

from native_log.records import EncodeOptions

NOW_MS = 1_700_000_000_123


class Batch:
    """What OpenBatches needs of a batch."""

    def __init__(self, impl: Any, limit_bytes: int = 1000) -> None:
        self.builder = impl.BatchBuilder(limit_bytes)
        self.callbacks: list[Any] = []


def open_batches(impl: Any, sticky: Batch, *others: Batch, **options: Any) -> Any:
    class Future(impl.AppendedRecord):  # type: ignore[misc]
        __slots__ = ()

    return impl.OpenBatches(Future, lambda: NOW_MS * 1_000_000 + 999_999, list(others), sticky, **options)


def test_a_record_is_appended_and_described(impl: Any) -> None:
    batch, same = Batch(impl), impl.BatchBuilder(1000)
    append = open_batches(impl, batch).append
    records: list[tuple[Any, ...]] = [
        (b"value", None, None, 7),
        (None, None, [("h", b"v"), ("n", None)], 8),
        ("gr\u00fcn", None, [], None),
    ]
    for index, (value, key, headers, time_ms) in enumerate(records):
        record = append(value, key, headers, time_ms, print if index == 1 else None)
        plain = value.encode() if isinstance(value, str) else value
        assert type(record).__name__ == "Future" and record.batch is batch
        assert (record.index, record.timestamp) == (index, time_ms or NOW_MS)
        assert (record.key_size, record.value_size) == (-1, -1 if plain is None else len(plain))
        same.append(plain, key, headers, time_ms or NOW_MS)
    assert [(callback, record.index) for callback, record in batch.callbacks] == [(print, 1)]
    first, second = (
        bytes(impl.encode_builders([builder], EncodeOptions()).data) for builder in (batch.builder, same)
    )
    assert first == second


def test_a_key_chooses_the_batch(impl: Any) -> None:
    sticky, others = Batch(impl), [Batch(impl) for _ in range(10)]
    batches = open_batches(impl, sticky, *others)
    for key in (b"", "a", b"ab", b"key"):
        record = batches.append(b"v", key)
        expected = impl.partition_of_key(key.encode() if isinstance(key, str) else key, 10)
        assert record.batch is others[expected] and record.key_size == len(key)
    assert sticky.builder.record_count == 0
    assert open_batches(impl, sticky, *others, ignore_keys=True).append(b"v", b"a").batch is sticky
    assert open_batches(impl, sticky).append(b"v", b"a") is None


def test_batches_are_replaced(impl: Any) -> None:
    first, second, listed = Batch(impl), Batch(impl), [Batch(impl)]
    batches = impl.OpenBatches(impl.AppendedRecord, lambda: 0, listed, first)
    assert batches.append(b"v").batch is batches.sticky is first
    batches.sticky = second
    assert batches.append(b"v").batch is batches.sticky is second
    listed[0] = first
    assert batches.append(b"v", b"k").batch is first


def test_a_full_batch_is_reported(impl: Any) -> None:
    batch, full = Batch(impl, 100), []
    batches = open_batches(impl, batch)
    assert batches.on_full is None

    def replace() -> None:
        full.append(batch.builder.is_full)
        batches.sticky = Batch(impl, 100)

    batches.on_full = replace
    assert batches.append(b"v" * 200).index == 0
    assert full == [True]
    assert batches.append(b"v").index == 0
    assert batches.append(b"v" * 99, callback=print) is None
    assert batches.sticky.callbacks == [] and full == [True]
    batches.sticky.builder.close()
    assert batches.append(b"v") is None


def test_the_exception_of_a_clock_or_on_full_is_raised(impl: Any) -> None:
    def fail() -> int:
        raise RuntimeError("mine")

    batch = Batch(impl, 100)
    batches = impl.OpenBatches(impl.AppendedRecord, fail, [], batch)
    with pytest.raises(RuntimeError, match="mine"):
        batches.append(b"v")
    assert batch.builder.record_count == 0
    batches.on_full = fail
    with pytest.raises(RuntimeError, match="mine"):
        batches.append(b"v" * 200, timestamp_ms=1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"value": 1},
        {"value": bytearray(b"v")},
        {"value": "\ud800"},
        {"value": b"v", "key": 1},
        {"value": b"v", "headers": (("h", b"v"),)},
        {"value": b"v", "headers": [("h", "text")]},
        {"value": b"v", "headers": ["header"]},
        {"value": b"v", "timestamp_ms": -1},
        {"value": b"v", "timestamp_ms": 2**63},
        {"value": b"v", "timestamp_ms": "1"},
    ],
)
def test_other_arguments_are_left_to_the_caller(impl: Any, arguments: dict[str, Any]) -> None:
    batch = Batch(impl)
    assert open_batches(impl, batch, batch).append(**arguments, callback=print) is None
    assert batch.builder.record_count == 0 and batch.callbacks == []


def test_a_reference_cycle_is_collected(impl: Any) -> None:
    batch = Batch(impl)
    batches = open_batches(impl, batch)
    batches.on_full = [batches].append
    reference = weakref.ref(batch)
    del batch, batches
    gc.collect()
    assert reference() is None


def test_the_system_clock_gives_the_time_of_a_record(impl: Any) -> None:
    before = time.time_ns() // 1_000_000
    record = impl.OpenBatches(impl.AppendedRecord, time.time_ns, [], Batch(impl)).append(b"v")
    assert before <= record.timestamp <= time.time_ns() // 1_000_000
