"""Records that are alike, for which the kernel has its own compressor: libraries read what it writes."""

from __future__ import annotations

import random
from itertools import cycle, islice

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .conftest import KERNEL, REFERENCE, needs_kernel
from .rows import rows
from .test_encode_peers import read_by
from .test_peers import READERS

pytestmark = needs_kernel

CODECS = ["lz4", "snappy"]
NAMES = ["offset", "key", "value"]


def batch_of(values: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch({"key": [b"key-%06d" % (i * 7919) for i in range(len(values))], "value": values})


def orders(count: int, seed: int = 1) -> list[bytes]:
    rnd = random.Random(seed)
    states = ["created", "paid", "shipped", "delivered", "cancelled"]
    return [
        b'{"user":"%s","state":"%s","price":%d,"region":"eu-west-1"}'
        % (rnd.randbytes(7).hex().encode(), rnd.choice(states).encode(), rnd.randrange(10**6))
        for _ in range(count)
    ]


def turned_to_noise(count: int) -> list[bytes]:
    return orders(count // 2) + [random.Random(i).randbytes(90) for i in range(count // 2)]


INPUTS = {
    "alike": orders(12_000),
    "long": [b"".join(orders(40, seed)) for seed in range(300)],
    "then noise": turned_to_noise(12_000),
    "one of more than a block": [b"".join(orders(3000))],
    "all the same": [b"the same value once more, " * 4] * 20_000,
    "counted": [b"%08d, and some more behind it" % i for i in range(30_000)],
}


@pytest.mark.parametrize("batch_size", [1000, 16_384, 1 << 20])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("values", INPUTS.values(), ids=INPUTS)
def test_libraries_and_we_read_it(values: list[bytes], codec: str, batch_size: int) -> None:
    records = batch_of(values)
    encoded = KERNEL.encode(records, compression=codec, batch_size=batch_size)
    expected = [{"offset": i} | row for i, row in enumerate(records.to_pylist())]
    assert rows(KERNEL.decode(encoded.data, NAMES).batch) == expected
    assert rows(REFERENCE.decode(encoded.data, NAMES).batch) == expected


@pytest.mark.parametrize("peer", READERS)
@pytest.mark.parametrize(("codec", "magic"), [("lz4", 2), ("snappy", 2), ("lz4", 1), ("snappy", 0)])
def test_peers_read_it(peer: str, codec: str, magic: int) -> None:
    values = orders(3000)
    encoded = KERNEL.encode(batch_of(values), magic=magic, compression=codec, batch_size=30_000)
    assert [value for _, _, _, value, _ in read_by(READERS[peer], encoded.data)] == values


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("values", INPUTS.values(), ids=INPUTS)
def test_it_is_no_larger_than_that_of_the_libraries(values: list[bytes], codec: str) -> None:
    ours, theirs = (
        len(impl.encode(batch_of(values), compression=codec, batch_size=65_536).data)
        for impl in (KERNEL, REFERENCE)
    )
    assert ours <= 1.01 * theirs


@pytest.mark.parametrize("codec", CODECS)
def test_output_does_not_depend_on_earlier_calls(codec: str) -> None:
    records, others = batch_of(orders(5000)), [batch_of(orders(5000, 2)), batch_of([b"x" * 100] * 5000)]
    written = set()
    for other in others:
        KERNEL.encode(other, compression=codec, batch_size=16_384)
        written.add(bytes(KERNEL.encode(records, compression=codec, batch_size=16_384).data))
    assert len(written) == 1


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Values of parts that stay, that change, that are drawn from a few; now and then one of another kind."""
    rnd = random.Random(draw(st.integers(0, 2**32)))
    few = [rnd.randbytes(rnd.randrange(12)) for _ in range(4)]
    parts = draw(st.lists(st.tuples(st.sampled_from("scf"), st.integers(0, 70)), min_size=1, max_size=6))
    stays = [rnd.randbytes(size) for _, size in parts]
    odd = draw(st.sampled_from([0, 0, 0.01, 0.2]))

    def value() -> bytes:
        if rnd.random() < odd:
            return rnd.randbytes(rnd.randrange(200))
        made = [
            stay if kind == "s" else rnd.randbytes(size) if kind == "c" else rnd.choice(few)
            for (kind, size), stay in zip(parts, stays, strict=True)
        ]
        return b"".join(made)

    some = [value() for _ in range(draw(st.integers(1, 400)))]
    return list(islice(cycle(some), draw(st.integers(1, 1500))))


@settings(deadline=None)
@given(alike(), st.sampled_from(CODECS), st.sampled_from([500, 16_384, 1 << 20]))
def test_any_records(values: list[bytes], codec: str, batch_size: int) -> None:
    encoded = KERNEL.encode(batch_of(values), compression=codec, batch_size=batch_size)
    for impl in (KERNEL, REFERENCE):
        assert impl.decode(encoded.data, ["value"]).batch["value"].to_pylist() == values
