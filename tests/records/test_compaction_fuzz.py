"""Any bytes at all, at every entry point of cleaning: an answer or a plain error, never a crash or a hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .keywords import mark, put_batches
from .test_fuzz import CORPUS, check_result, run

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

STATUSES = {"end", "partial", "zeros", "damaged"}
LIMITS = [0, 100, 1000, 1 << 20, 1 << 28]


def test_maps(impl) -> None:
    def check(data: bytes, chance: random.Random) -> None:
        how = {
            "check_crcs": chance.random() < 0.5,
            "start_offset": chance.choice([None, 0, 8, -(2**63), 2**63 - 1]),
            "end_offset": chance.choice([None, 0, 8, -(2**63), 2**63 - 1]),
            "max_batch_bytes": chance.choice(LIMITS),
        }
        max_bytes = chance.choice([0, 100, 1 << 30])
        offsets = impl.OffsetMap(max_bytes)
        dirty, clean = (impl.KeyBuckets(2, max_bytes, dirty=dirty) for dirty in (True, False))
        check_result(put_batches(offsets, data, **how), data, {*STATUSES, "full"})
        check_result(put_batches(dirty, data, **how), data, {*STATUSES, "full"})
        check_result(put_batches(clean, data, **how), data, {*STATUSES, "full"})
        survivors = offsets.survivors()
        check_result(mark(offsets, data, survivors, **how), data, STATUSES)
        impl.merge(zip(dirty.take(), clean.take(), strict=True))

    run(check)


def test_rewrite(impl) -> None:
    every = impl.Survivors()
    every.add_range(0, 100_000)
    chosen = [every, impl.Survivors(), impl.Survivors(range(0, 100, 2))]

    def check(data: bytes, chance: random.Random) -> None:
        rewritten = impl.rewrite(
            data,
            survivors=chance.choice(chosen),
            survivors_end=chance.choice([0, 9, 1 << 60]),
            now_ms=chance.choice([0, 1 << 62]),
            delete_horizon_ms=chance.choice([None, 5]),
            verdicts=chance.choice([None, bytes(9), bytes(chance.randrange(256) for _ in range(3))]),
            nulled=chance.choice([None, *chosen]),
            check_crcs=chance.random() < 0.5,
            max_batch_bytes=chance.choice(LIMITS),
        )
        check_result(rewritten, data, {*STATUSES, "limit"})
        assert impl.scan(bytes(rewritten.data), check_crcs=True).status == "end"

    run(check)


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 3])):
        at = chance.randrange(len(changed))
        match chance.randrange(3):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at : at + 4] = chance.choice([0, 1, 2**31 - 1, 2**32 - 1]).to_bytes(4, "little")
            case 2:
                del changed[at : at + chance.randrange(9)]
        changed = changed or bytearray(1)
    return bytes(changed)


@pytest.mark.parametrize("what", ["pack", "bitmap"])
def test_packs_and_bitmaps_of_damaged_bytes(impl, what: str) -> None:
    offsets, buckets = impl.OffsetMap(1 << 20), impl.KeyBuckets(1, 1 << 20, dirty=True)
    for data in CORPUS:
        put_batches(offsets, data)
        put_batches(buckets, data)
    survivors = offsets.survivors()
    survivors.add_range(100, 200_000)
    good = bytes(buckets.take()[0]) if what == "pack" else survivors.to_bytes()
    read: Callable = (lambda data: impl.merge([[data]])) if what == "pack" else impl.Survivors.from_bytes

    def check(_: bytes, chance: random.Random) -> None:
        try:
            content = read(mutated(good, chance))
        except ValueError:
            return
        assert len(content) < 1 << 21

    run(check)
