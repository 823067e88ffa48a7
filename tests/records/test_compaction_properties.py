"""Laws of cleaning that hold for any log and any bytes; and the kernel and the reference are one."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.batches import T0, Rec, v2
from tests.builders.strategies import PRODUCERS, Batch, logs, mutations

from .conftest import KERNEL, REFERENCE, needs_kernel
from .keywords import mark, put_batches
from .rows import SEVEN, rows

if TYPE_CHECKING:
    from types import SimpleNamespace

    from native_log.records.compaction import Rewritten

# The fixture `impl` is the same for all examples.
lawful = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
ROOM = 1 << 30
FEW_KEYS = [None, b"", b"a", b"b", b"c", b"key"]


@st.composite
def few_keys(draw: st.DrawFn) -> list[tuple[int, bytes | None, bytes]]:
    """Offset, key and batch of records with few keys, offsets rising with gaps; a batch for each few."""
    offset, records = draw(st.sampled_from([0, 65_530, 2**40])), []
    for keys in draw(st.lists(st.lists(st.sampled_from(FEW_KEYS), min_size=1, max_size=6), max_size=8)):
        data = v2([Rec(key, b"v") for key in keys], offset, draw(st.sampled_from(["none", "lz4"])))
        records += [(offset + at, key, data if at == 0 else b"") for at, key in enumerate(keys)]
        offset += len(keys) + draw(st.integers(0, 3))
    return records


def newest(records: list[tuple[int, bytes | None, bytes]]) -> dict[bytes, int]:
    return {key: offset for offset, key, _ in records if key is not None}


def bytes_of(records: list[tuple[int, bytes | None, bytes]]) -> bytes:
    return b"".join(data for _, _, data in records)


def expected_survivors(records: list[tuple[int, bytes | None, bytes]], first_dirty: int) -> list[int]:
    """Kafka: Cleaner.shouldRetainRecord, for a map of the offsets from first_dirty on."""
    dirty = newest([record for record in records if record[0] >= first_dirty])
    return [offset for offset, key, _ in records if key is not None and offset >= dirty.get(key, -1)]


@lawful
@given(few_keys(), st.data())
def test_a_map_has_the_last_offset_of_each_key(impl, records, data: st.DataObject) -> None:
    offsets = impl.OffsetMap(ROOM)
    put_batches(offsets, bytes_of(records))
    assert {key: offsets.get(key) for key in newest(records)} == newest(records)
    assert len(offsets) == len(newest(records))
    first_dirty = data.draw(st.sampled_from([0, *(offset for offset, _, _ in records)]))
    offsets = impl.OffsetMap(ROOM)
    put_batches(offsets, bytes_of(records), start_offset=first_dirty)
    survivors = offsets.survivors()
    mark(offsets, bytes_of(records), survivors, end_offset=first_dirty)
    assert list(survivors) == expected_survivors(records, first_dirty)


@lawful
@given(few_keys(), st.integers(0, 300))
def test_a_full_map_is_right_for_the_records_that_it_took(impl, records, max_bytes: int) -> None:
    data, start = bytes_of(records), 0
    offsets = impl.OffsetMap(max_bytes)
    progress = put_batches(offsets, data)
    assert offsets.size_bytes <= max_bytes
    assert progress.status in ("end", "full")
    if records:
        start = progress.next_offset
        before = newest([record for record in records if record[0] < start])
        assert sorted(offsets.survivors()) == sorted(before.values())
    if progress.status == "full":
        rest = impl.OffsetMap(ROOM)
        put_batches(rest, data[progress.position :], start_offset=start)
        following = newest([record for record in records if record[0] >= start])
        assert sorted(rest.survivors()) == sorted(following.values())


@lawful
@given(few_keys(), st.data())
def test_packs_of_any_splits_have_the_survivors_of_the_whole(impl, records, data: st.DataObject) -> None:
    first_dirty = data.draw(st.sampled_from([0, *(offset for offset, _, _ in records)]))
    cuts = data.draw(st.sets(st.sampled_from(range(len(records) + 1)), max_size=4))
    borders = [0, *sorted(cuts), len(records)]
    log, packs, count = bytes_of(records), [], data.draw(st.sampled_from([1, 2, 5, 1000]))
    for start, end in pairwise(borders):
        if start == end:
            continue
        lowest, highest = records[start][0], records[end - 1][0] + 1
        clean = {"start_offset": lowest, "end_offset": min(highest, first_dirty)}
        dirty = {"start_offset": max(lowest, first_dirty), "end_offset": highest}
        for is_dirty, how in ((False, clean), (True, dirty)):
            buckets = impl.KeyBuckets(count, data.draw(st.sampled_from([50, 100, ROOM])), dirty=is_dirty)
            packs += all_packs(buckets, log, how)
    data.draw(st.randoms()).shuffle(packs)
    by_bucket = [[of_split[bucket] for of_split in packs] for bucket in range(count)]
    merged = impl.merge(by_bucket)
    assert list(merged) == expected_survivors(records, first_dirty)
    # A key is in one bucket only.
    assert sum(len(impl.merge([packs])) for packs in by_bucket) == len(merged)


def all_packs(buckets: Any, log: bytes, how: dict[str, Any]) -> list[list[Any]]:
    """Of a log, in as many parts as there is room for at a time."""
    packs, position, start = [], 0, how.get("start_offset")
    while True:
        progress = put_batches(buckets, log[position:], **how | {"start_offset": start})
        assert progress.status in ("end", "full")
        assert progress.records - progress.null_keys >= len(buckets)
        packs.append(buckets.take())
        if progress.status == "end":
            return packs
        position, start = position + progress.position, progress.next_offset


@needs_kernel
@settings(deadline=None)
@given(logs(), st.data())
def test_each_implementation_merges_packs_of_the_other(batches: list[Batch], data: st.DataObject) -> None:
    """Any format, codec, transaction and key, split anywhere, full at any bound: what an offset map says."""
    log = b"".join(batch.data for batch in batches)
    offsets = sorted({row["offset"] for batch in batches for row in batch.rows})
    aborted = data.draw(st.sampled_from([b"", struct.pack("=qqq", PRODUCERS[0], 0, 1 << 62)]))
    first_dirty = data.draw(st.sampled_from([-(1 << 63), *offsets]))
    cuts = data.draw(st.sets(st.sampled_from([first_dirty, *offsets])))
    count = data.draw(st.sampled_from([1, 3, 500]))
    packs = []
    for start, end in pairwise([-(1 << 63), *sorted(cuts | {first_dirty} - {-(1 << 63)}), None]):
        impl = data.draw(st.sampled_from([KERNEL, REFERENCE]))
        room = data.draw(st.sampled_from([3100, 6000, ROOM]))
        buckets = impl.KeyBuckets(count, room, dirty=start >= first_dirty)
        packs += all_packs(buckets, log, {"start_offset": start, "end_offset": end, "aborted": aborted})
    expected = KERNEL.OffsetMap(ROOM)
    put_batches(expected, log, start_offset=first_dirty, aborted=aborted)
    survivors = expected.survivors()
    mark(expected, log, survivors, end_offset=first_dirty, aborted=aborted)
    for impl in (KERNEL, REFERENCE):
        assert list(impl.merge(zip(*packs, strict=True))) == list(survivors)


@st.composite
def filters(draw: st.DrawFn, batches: list[Batch]) -> dict[str, Any]:
    """Arguments of rewrite, survivors as a set."""
    offsets = [row["offset"] for batch in batches for row in batch.rows]
    chosen = st.sets(st.sampled_from(offsets)) if offsets else st.just(set())
    survivors = draw(st.one_of(chosen, st.just(set(offsets)), st.just(set())))
    return {
        "survivors": {offset for offset in survivors if offset < 1 << 63},
        "survivors_end": draw(st.sampled_from([1 << 62, *offsets])),
        "now_ms": draw(st.sampled_from([0, T0, 1 << 62])),
        "delete_horizon_ms": draw(st.sampled_from([None, 0, T0 + 10**6])),
        "legacy_tombstones_kept": draw(st.booleans()),
        "verdicts": draw(st.one_of(st.none(), st.binary(max_size=len(batches)).map(plain_verdicts))),
        "nulled": draw(st.one_of(st.none(), chosen)),
    }


def plain_verdicts(data: bytes) -> bytes:
    return bytes(byte % 8 for byte in data)


def rewrite(impl: SimpleNamespace, data: bytes, how: dict[str, Any], **more: Any) -> Rewritten:
    nulled = None if how["nulled"] is None else impl.Survivors(how["nulled"])
    return impl.rewrite(
        data, **how | more | {"survivors": impl.Survivors(how["survivors"]), "nulled": nulled}
    )


@lawful
@given(logs(), st.data())
def test_rewrite_keeps_exactly_the_survivors(impl, batches: list[Batch], data: st.DataObject) -> None:
    log = b"".join(batch.data for batch in batches)
    how = data.draw(filters(batches)) | {"verdicts": None, "nulled": None}
    # Tombstones have their own tests.
    rewritten = rewrite(impl, log, how, now_ms=-(1 << 63), legacy_tombstones_kept=True)
    assert rewritten.status == "end"
    before, after = impl.decode(log, SEVEN).batch, impl.decode(bytes(rewritten.data), SEVEN).batch
    expected = [
        row
        for row in rows(before)
        if row["offset"] in how["survivors"] or row["offset"] >= how["survivors_end"]
    ]
    assert rows(after) == expected
    assert rewritten.batches.equals(impl.scan(bytes(rewritten.data), check_crcs=True).batches)
    # A second round over what is left changes nothing.
    again = rewrite(impl, bytes(rewritten.data), how, now_ms=-(1 << 63), legacy_tombstones_kept=True)
    assert again.data == rewritten.data


@lawful
@given(logs())
def test_batches_that_lose_nothing_are_the_same_bytes(impl, batches: list[Batch]) -> None:
    data = b"".join(batch.data for batch in batches if batch.rows)
    how = {"now_ms": 0, "delete_horizon_ms": None}
    survivors = impl.Survivors(row["offset"] for batch in batches for row in batch.rows)
    assert impl.rewrite(data, survivors=survivors, survivors_end=1 << 62, **how).data == data
    assert impl.rewrite(data, survivors=impl.Survivors(), survivors_end=0, **how).data == data


# Kernel and reference
# -------------------------------------------------------------------------------------------------


def same_end(kernel: Any, reference: Any) -> None:
    """But for how damage is worded."""
    for name in ("status", "position", "next_offset", "needed_bytes"):
        assert getattr(kernel, name) == getattr(reference, name), name
    assert (kernel.damage is None) == (reference.damage is None)
    if kernel.damage:
        for name in ("kind", "position", "size_bytes", "offset"):
            assert getattr(kernel.damage, name) == getattr(reference.damage, name), name


def same_rewritten(kernel: Rewritten, reference: Rewritten) -> None:
    same_end(kernel, reference)
    for name in kernel.stats.__slots__:
        if name != "bytes_kept":
            assert getattr(kernel.stats, name) == getattr(reference.stats, name), name
    kernel_rows, reference_rows = kernel.batches.to_pylist(), reference.batches.to_pylist()
    assert len(kernel_rows) == len(reference_rows)
    for mine, theirs in zip(kernel_rows, reference_rows, strict=True):
        data = [
            bytes(result.data[row["position"] :][: row["sizeInBytes"]])
            for result, row in ((kernel, mine), (reference, theirs))
        ]
        if mine["compression"] == "none":
            assert data[0] == data[1]
            continue
        changed = ("position", "sizeInBytes", "crc")
        assert {name: mine[name] for name in mine if name not in changed} == {
            name: theirs[name] for name in theirs if name not in changed
        }
        decoded = [REFERENCE.decode(part, SEVEN, control=True) for part in data]
        assert rows(decoded[0].batch) == rows(decoded[1].batch)


def check_maps(log: bytes, data: st.DataObject) -> None:
    how = {
        "start_offset": data.draw(st.sampled_from([None, 0, 7])),
        "end_offset": data.draw(st.sampled_from([None, 9, 2**31 + 2])),
        "check_crcs": data.draw(st.booleans()),
        "aborted": data.draw(st.sampled_from([b"", struct.pack("=qqq", PRODUCERS[0], 0, 1 << 62)])),
        "base_position": 11,
    }
    max_bytes = data.draw(st.sampled_from([ROOM, 200]))
    maps = [impl.OffsetMap(max_bytes) for impl in (KERNEL, REFERENCE)]
    is_dirty, count = data.draw(st.booleans()), data.draw(st.sampled_from([1, 3, 100]))
    buckets = [impl.KeyBuckets(count, max_bytes, dirty=is_dirty) for impl in (KERNEL, REFERENCE)]
    for kernel, reference in (maps, buckets):
        first, second = put_batches(kernel, log, **how), put_batches(reference, log, **how)
        same_end(first, second)
        assert (first.records, first.null_keys) == (second.records, second.null_keys)
        assert (len(kernel), kernel.size_bytes) == (len(reference), reference.size_bytes)
    for _ in range(2):
        assert buckets[0].take() == buckets[1].take()
        first, second = (put_batches(of_impl, log, **how) for of_impl in buckets)
        same_end(first, second)
    survivors = [offsets.survivors() for offsets in maps]
    assert list(survivors[0]) == list(survivors[1])
    ends = [
        mark(offsets, log, marked, **how | {"end_offset": None})
        for offsets, marked in zip(maps, survivors, strict=True)
    ]
    same_end(*ends)
    assert list(survivors[0]) == list(survivors[1])


@needs_kernel
@settings(deadline=None)
@given(logs(), st.data())
def test_maps_agree(batches: list[Batch], data: st.DataObject) -> None:
    check_maps(b"".join(batch.data for batch in batches), data)


@needs_kernel
@settings(deadline=None)
@given(logs(3), st.data())
def test_maps_agree_on_damaged_bytes(batches: list[Batch], data: st.DataObject) -> None:
    check_maps(data.draw(mutations(b"".join(batch.data for batch in batches))), data)


@needs_kernel
@settings(deadline=None)
@given(logs(), st.data())
def test_rewrites_agree(batches: list[Batch], data: st.DataObject) -> None:
    log = b"".join(batch.data for batch in batches)
    how = data.draw(filters(batches))
    same_rewritten(rewrite(KERNEL, log, how), rewrite(REFERENCE, log, how))


@needs_kernel
@settings(deadline=None)
@given(logs(3), st.data())
def test_rewrites_agree_on_damaged_bytes(batches: list[Batch], data: st.DataObject) -> None:
    log = data.draw(mutations(b"".join(batch.data for batch in batches)))
    how = data.draw(filters(batches)) | {"check_crcs": data.draw(st.booleans())}
    same_rewritten(rewrite(KERNEL, log, how), rewrite(REFERENCE, log, how))


@needs_kernel
@settings(deadline=None)
@given(st.sets(st.one_of(st.integers(0, 1 << 17), st.integers(0, (1 << 63) - 1))))
def test_each_implementation_reads_bitmaps_of_the_other(offsets: set[int]) -> None:
    for writer, reader in ((KERNEL, REFERENCE), (REFERENCE, KERNEL)):
        assert list(reader.Survivors.from_bytes(writer.Survivors(offsets).to_bytes())) == sorted(offsets)
    ranged = KERNEL.Survivors(offsets)
    ranged.add_range(70_000, 200_000)
    same = REFERENCE.Survivors(offsets)
    same.add_range(70_000, 200_000)
    assert REFERENCE.Survivors.from_bytes(ranged.to_bytes()) == same
