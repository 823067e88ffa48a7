"""Records as messages of magic 0 and 1."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from native_log.errors import InvalidRecordError, RecordTooLargeError
from tests.builders.batches import LOG_APPEND_TIME, T0, Rec
from tests.builders.legacy import message, wrapper

from .test_encode import batch, counts, values

RECS = [Rec(b"k", b"v"), Rec(None, b"", timestamp=T0 + 9), Rec(b"", None, timestamp=T0 - 1)]


def messages(magic: int, base_offset: int, attributes: int = 0, timestamp: int | None = None) -> list[bytes]:
    return [
        message(
            magic,
            base_offset + i,
            rec.key,
            rec.value,
            timestamp=rec.timestamp if timestamp is None else timestamp,
            attributes=attributes,
        )
        for i, rec in enumerate(RECS)
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages(impl, magic: int) -> None:
    encoded = impl.encode(batch(*RECS), magic=magic, base_offset=100)
    assert bytes(encoded.data) == b"".join(messages(magic, 100))
    assert encoded.batches.num_rows == 3


def test_messages_with_log_append_time(impl) -> None:
    encoded = impl.encode(batch(*RECS), magic=1, timestamp_type=1, append_time_ms=T0 + 50)
    assert bytes(encoded.data) == b"".join(messages(1, 0, LOG_APPEND_TIME, T0 + 50))
    assert impl.encode(batch(*RECS), magic=0, timestamp_type=1, append_time_ms=5).data == b"".join(
        messages(0, 0)
    )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_wrappers(impl, magic: int, codec: str) -> None:
    """The bytes but for what the codec made of them: that is a matter of libraries."""

    def content(data: bytes) -> Any:
        columns = ["offset", "key", "value", "timestamp", "timestampType", "compression"]
        return impl.decode(data, columns).batch, impl.scan(data).batches.drop_columns(["crc", "sizeInBytes"])

    encoded = impl.encode(batch(*RECS), magic=magic, compression=codec, base_offset=100)
    inner = messages(magic, 100 if magic == 0 else 0)
    assert content(encoded.data) == content(wrapper(magic, inner, 102, codec, timestamp=T0 + 9))
    encoded = impl.encode(
        batch(*RECS), magic=magic, compression=codec, timestamp_type=1, append_time_ms=T0 + 50
    )
    flags = LOG_APPEND_TIME if magic else 0
    expected = wrapper(magic, messages(magic, 0, flags), 2, codec, timestamp=T0 + 50, attributes=flags)
    assert content(encoded.data) == content(expected)


def test_wrappers_take_messages_up_to_their_size(impl) -> None:
    # 34 bytes of the wrapper; the records before are estimated at 1.05 times their 134 bytes, at first.
    three = values(100, 100, 100)
    for batch_size, expected in [(34 + 140 + 134, [2, 1]), (34 + 140 + 134 - 1, [1]), (0, [1, 1, 1])]:
        encoded = impl.encode(three, magic=1, compression="gzip", batch_size=batch_size)
        offsets = [-1, *encoded.batches["lastOffset"].to_pylist()]
        sizes = [after - before for before, after in pairwise(offsets)]
        assert sizes[: len(expected)] == expected
    assert counts(impl.encode(three, magic=1, batch_size=1 << 20)) == [1, 1, 1]


def test_too_large(impl) -> None:
    assert impl.encode(values(66, 66), magic=1, max_message_bytes=100).batches.num_rows == 2
    with pytest.raises(RecordTooLargeError, match=r"row 1: .* at most 100 bytes .* found 101"):
        impl.encode(values(66, 67), magic=1, max_message_bytes=100)
    with pytest.raises(RecordTooLargeError, match=r"rows 0 to 1: "):
        impl.encode(values(66, 67), magic=1, max_message_bytes=10, compression="gzip")


def test_headers_are_rejected(impl) -> None:
    with pytest.raises(InvalidRecordError, match="row 1: expected no headers"):
        impl.encode(batch(Rec(), Rec(headers=((b"h", b"v"),))), magic=1)
