"""Hypothesis strategies: logs as brokers may have written them, with the rows they hold, and what can happen
to bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from .batches import CONTROL, HORIZON, LOG_APPEND_TIME, T0, TRANSACTIONAL, Rec, marker, v2, with_right_crc
from .codecs import FLAVOURS
from .legacy import message, wrapper

PRODUCERS = [7, 8, 2**40]


class Batch(NamedTuple):
    data: bytes
    rows: list[dict[str, Any]]
    """offset, timestamp (ms), timestampType, key, value, headers, sequence of each record; none of control
    batches."""
    next_offset: int


texts = st.sampled_from([b"", b"h", b"name", "π".encode(), b"\xff\xfe", b"\xed\xa0\x80"])
payloads = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.builds(lambda byte, n: bytes([byte]) * n, st.integers(0, 255), st.integers(0, 3000)),
)
times = st.one_of(st.integers(T0 - 10**6, T0 + 10**6), st.sampled_from([-1, 0, 2**40, 2**62]))
headers = st.lists(st.tuples(texts, payloads), max_size=3).map(tuple)
records = st.builds(Rec, payloads, payloads, st.one_of(st.just(()), headers), times)


def header_name(name: bytes) -> str:
    return "\ufffd" if name == b"\xed\xa0\x80" else name.decode(errors="replace")


@st.composite
def deltas(draw: st.DrawFn, count: int) -> tuple[list[int], int]:
    """Offset deltas of so many records, and the last offset delta: with the gaps that compaction leaves, or
    none."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=count + 1, max_size=count + 1))
    result, delta = [], -1
    for gap in gaps[:count]:
        delta += 1 + gap
        result.append(delta)
    return result, max(delta + gaps[-1], 0)


@st.composite
def v2_batches(draw: st.DrawFn, offset: int) -> Batch:
    codec = draw(st.sampled_from(["none", "none", *FLAVOURS]))
    flavours = [how for name, how in FLAVOURS.get(codec, {"": None}).items() if name != "v0"]
    recs = draw(st.lists(records, max_size=6))
    where, last = draw(deltas(len(recs)))
    recs = [rec._replace(offset_delta=delta) for rec, delta in zip(recs, where, strict=True)]
    attributes = sum(draw(st.sets(st.sampled_from([LOG_APPEND_TIME, TRANSACTIONAL, HORIZON]))))
    producer_id = draw(st.sampled_from([-1, *PRODUCERS]))
    base_sequence = -1 if producer_id == -1 else draw(st.sampled_from([0, 2**31 - 2]))
    max_timestamp = draw(times)
    data = v2(
        recs,
        offset,
        codec if recs else "none",
        compress=draw(st.sampled_from(flavours)),
        attributes=attributes,
        last_offset_delta=last,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=base_sequence,
        leader_epoch=draw(st.integers(-1, 5)),
    )
    appended = bool(attributes & LOG_APPEND_TIME)
    rows = [
        {
            "offset": offset + rec.offset_delta,
            "timestamp": max_timestamp if appended else rec.timestamp,
            "timestampType": int(appended),
            "key": rec.key,
            "value": rec.value,
            "headers": [(header_name(name), value) for name, value in rec.headers] or None,
            "sequence": -1 if base_sequence < 0 else (base_sequence + rec.offset_delta) % 2**31,
        }
        for rec in recs
    ]
    return Batch(data, rows, offset + last + 1)


@st.composite
def control_batches(draw: st.DrawFn, offset: int) -> Batch:
    if draw(st.booleans()):
        data = marker(offset, draw(st.sampled_from(PRODUCERS)), draw(st.integers(0, 1)))
    else:
        data = v2(
            [Rec(b"\0\0\0\2", b"")] * draw(st.integers(0, 2)), offset, attributes=CONTROL, last_offset_delta=1
        )
    return Batch(data, [], offset + (1 if len(data) == 78 else 2))


@st.composite
def messages(draw: st.DrawFn, offset: int) -> Batch:
    """One message of magic 0 or 1, or a wrapper of several."""
    magic = draw(st.integers(0, 1))
    codec = draw(st.sampled_from(["none", "gzip", "snappy", "lz4"]))
    recs = draw(st.lists(records, min_size=1, max_size=1 if codec == "none" else 6))
    where, last = draw(deltas(len(recs)))
    if codec == "none":
        where, last = [0], 0
    last = where[-1]
    append_time = magic == 1 and draw(st.booleans())
    wrapper_time = draw(times)
    rows = [
        {
            "offset": offset + delta,
            "timestamp": -1 if magic == 0 else wrapper_time if append_time else rec.timestamp,
            "timestampType": -1 if magic == 0 else int(append_time),
            "key": rec.key,
            "value": rec.value,
            "headers": None,
            "sequence": -1,
        }
        for rec, delta in zip(recs, where, strict=True)
    ]
    attributes = LOG_APPEND_TIME if append_time else 0
    if codec == "none":
        time = wrapper_time if append_time else recs[0].timestamp
        data = message(magic, offset, recs[0].key, recs[0].value, timestamp=time, attributes=attributes)
        return Batch(data, rows, offset + 1)
    if offset + last == 0 and magic == 1:
        within = where
    else:
        within = [delta + (offset if magic == 0 else draw(st.just(0))) for delta in where]
    inner = [
        message(magic, at, rec.key, rec.value, timestamp=rec.timestamp)
        for rec, at in zip(recs, within, strict=True)
    ]
    flavour = draw(st.sampled_from(sorted(set(FLAVOURS[codec]) - ({"v0"} if magic == 1 else set()))))
    data = wrapper(
        magic,
        inner,
        offset + last,
        codec,
        compress=FLAVOURS[codec][flavour],
        attributes=attributes,
        timestamp=wrapper_time,
    )
    return Batch(data, rows, offset + last + 1)


@st.composite
def logs(draw: st.DrawFn, max_batches: int = 6) -> list[Batch]:
    """Batches of all magics and codecs, one after the other."""
    offset = draw(st.sampled_from([0, 5, 2**31, 2**53 + 1]))
    entries = []
    for kind in draw(
        st.lists(st.sampled_from([v2_batches, v2_batches, messages, control_batches]), max_size=max_batches)
    ):
        entries.append(draw(kind(offset)))
        offset = entries[-1].next_offset + draw(st.sampled_from([0, 0, 3]))
    return entries


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """Damage to bytes: flipped bits, other bytes, cuts, splices; sometimes with a corrected CRC."""
    mutated = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        if not mutated:
            break
        at = draw(st.integers(0, len(mutated) - 1))
        match draw(st.sampled_from(["flip", "flip", "byte", "cut", "drop", "insert", "repeat", "integer"])):
            case "flip":
                mutated[at] ^= 1 << draw(st.integers(0, 7))
            case "byte":
                mutated[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            case "cut":
                del mutated[at:]
            case "drop":
                del mutated[at : at + draw(st.integers(1, 40))]
            case "insert":
                mutated[at:at] = draw(st.binary(max_size=20))
            case "repeat":
                mutated[at:at] = mutated[at : at + draw(st.integers(1, 100))]
            case "integer":
                number = draw(st.sampled_from([0, 1, 13, 2**31 - 1, 2**31, 2**32 - 1]))
                mutated[at : at + 4] = number.to_bytes(4, "big")
    if len(mutated) > 61 and mutated[16] == 2 and draw(st.booleans()):
        size = 12 + int.from_bytes(mutated[8:12], "big")
        mutated[:size] = (
            with_right_crc(bytes(mutated[:size])) if 61 <= size <= len(mutated) else mutated[:size]
        )
    return bytes(mutated)
