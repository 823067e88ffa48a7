"""Any bytes at all, at every entry point, for a bounded time: an answer or a plain error, never a crash or a
hang.

FUZZ_SEED gives another run.
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.builders.batches import LOG_APPEND_TIME, TRANSACTIONAL, Rec, marker, v2, with_right_crc
from tests.builders.codecs import FLAVOURS
from tests.builders.legacy import message, wrapper
from tests.effort import EFFORT

from .rows import ALL

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 0.5 * EFFORT
"""For each entry point."""
SEED = int(os.environ.get("FUZZ_SEED", "1"))
DAMAGE = {"size", "magic", "crc", "codec", "compression", "records", "too-large"}

RECS = [Rec(b"k%d" % i, b"v" * (i * 13), ((b"h", b"w"), (b"", None))[: i % 3]) for i in range(12)]
CORPUS = [
    *(v2(RECS, 7, codec, compress=how) for codec, flavours in FLAVOURS.items() for how in flavours.values()),
    v2(RECS, 7, attributes=TRANSACTIONAL | LOG_APPEND_TIME, producer_id=3, base_sequence=0),
    marker(3, 4),
    *(message(magic, 5) for magic in (0, 1)),
    *(
        wrapper(magic, [message(magic, i) for i in range(5)], 4, codec, compress=how)
        for magic in (0, 1)
        for codec in ("gzip", "snappy", "lz4")
        for how in FLAVOURS[codec].values()
    ),
]
NUMBERS = [n.to_bytes(4, "big") for n in (0, 1, 13, 14, 61, 255, 2**31 - 1, 2**31, 2**32 - 1)]


def inputs(chance: random.Random) -> Iterator[bytes]:
    while True:
        if chance.random() < 0.05:
            yield chance.randbytes(chance.randrange(200))
            continue
        data = bytearray(chance.choice(CORPUS))
        for _ in range(chance.choice([1, 1, 2, 5, 20])):
            at = chance.randrange(len(data))
            match chance.randrange(5):
                case 0:
                    data[at] ^= 1 << chance.randrange(8)
                case 1:
                    data[at] = chance.randrange(256)
                case 2:
                    data[at : at + 4] = chance.choice(NUMBERS)
                case 3:
                    data[at:at] = chance.randbytes(chance.randrange(9))
                case 4:
                    del data[at : at + chance.randrange(9)]
            data = data or bytearray(1)
        if len(data) > 61 and data[16] == 2 and chance.random() < 0.7:
            data[8:12] = (len(data) - 12).to_bytes(4, "big")
            data = bytearray(with_right_crc(bytes(data)))
        yield bytes(data) + chance.choice(CORPUS) * chance.randrange(2)


def run(check) -> None:
    chance = random.Random(SEED)
    end = time.monotonic() + SECONDS
    for count, data in enumerate(inputs(chance)):
        check(data, chance)
        if count >= 20 and time.monotonic() > end:
            return


def check_result(result, data: bytes, statuses: set[str]) -> None:
    assert result.status in statuses
    assert (result.damage is not None) == (result.status == "damaged")
    assert (result.needed_bytes > 0) == (result.status == "partial")
    if result.status in ("partial", "damaged", "zeros", "limit"):
        assert 0 <= result.position < len(data)
    if result.status == "partial":
        assert result.needed_bytes > len(data) - result.position
    if result.damage:
        assert result.damage.kind in DAMAGE
        assert result.damage.position == result.position
        assert result.damage.message
        assert "\n" not in result.damage.message


def test_decode(impl) -> None:
    def check(data: bytes, chance: random.Random) -> None:
        result = impl.decode(
            data,
            chance.choice([ALL, ["offset"], ["headers", "timestamp"], ["value"], []]),
            check_crcs=chance.random() < 0.5,
            control=chance.random() < 0.5,
            start_offset=chance.choice([None, 0, 8, -(2**63), 2**63 - 1]),
            end_offset=chance.choice([None, 0, 8, -(2**63), 2**63 - 1]),
            max_rows=chance.choice([None, 0, 3]),
            max_bytes=chance.choice([None, 0, 100]),
            max_batch_bytes=chance.choice([0, 100, 1000, 1 << 20, 1 << 28]),
            topic="t",
        )
        result.batch.validate(full=True)
        check_result(result, data, {"end", "partial", "limit", "zeros", "damaged"})

    run(check)


def test_scan(impl) -> None:
    def check(data: bytes, chance: random.Random) -> None:
        result = impl.scan(
            data, check_crcs=chance.random() < 0.5, max_batch_bytes=chance.choice([0, 1000, 1 << 28])
        )
        result.batches.validate(full=True)
        check_result(result, data, {"end", "partial", "zeros", "damaged"})

    run(check)


def test_find_batch(impl) -> None:
    def check(data: bytes, chance: random.Random) -> None:
        start = chance.randrange(len(data) + 2)
        position = impl.find_batch(
            data,
            start,
            min_offset=chance.choice([-(2**63), 0, 5]),
            max_offset=chance.choice([6, 2**63 - 1]),
            max_batch_bytes=chance.choice([0, 1000, 2**31]),
        )
        if position is not None:
            assert start <= position < len(data)
            if position + 12 + int.from_bytes(data[position + 8 : position + 12]) > len(data):
                return
            scanned = impl.scan(data[position:], check_crcs=True)
            assert scanned.batches.column("isValid")[0].as_py() is True

    run(check)


@pytest.mark.parametrize("position", [0, 2**31, 2**62])
def test_base_positions(impl, position: int) -> None:
    data = v2(RECS) + b"\xff" * 40
    assert impl.decode(data, ["position"], base_position=position).position == position + len(v2(RECS))
    assert impl.scan(data, base_position=position).damage.position == position + len(v2(RECS))
    assert impl.find_batch(data, base_position=position) == position
