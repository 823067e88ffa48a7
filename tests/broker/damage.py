"""Kinds of damage to a log directory.

Each is a function that changes the files and describes the change, or returns None if these files offer
nothing to damage that way.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from crc32c import crc32c

from .log_dir_files import (
    CLEAN_SHUTDOWN,
    ENTRY_BYTES,
    EPOCHS,
    INDEXES,
    LOG_START,
    RECOVERY_POINT,
    batches_of,
    checkpoint,
    file_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from .log_dir_files import Batch, LogDirFiles

    Damage = Callable[[LogDirFiles, Random], str | None]

DAMAGES: dict[str, Damage] = {}
"""All kinds, by name."""


def damage(function: Damage) -> Damage:
    DAMAGES[function.__name__] = function
    return function


# Batches


def _log_with_batches(files: LogDirFiles, random: Random, least: int = 1) -> tuple[str, list[Batch]] | None:
    names = [name for name in files.of_kind("log") if len(batches_of(files.partition[name])) >= least]
    if not names:
        return None
    name = random.choice(names)
    return name, batches_of(files.partition[name])


def _pick(batches: Sequence[Batch], random: Random) -> int:
    """Return the index of a batch, often of the first or the last."""
    return random.choice([0, len(batches) - 1, *(random.randrange(len(batches)) for _ in range(4))])


def _bytes_of(data: bytes, batch: Batch) -> bytes:
    return data[batch.position : batch.position + batch.size]


def _insert(data: bytes, position: int, inserted: bytes) -> bytes:
    return data[:position] + inserted + data[position:]


def _int64(value: int) -> int:
    """Return the closest value that fits."""
    return max(-(2**63), min(value, 2**63 - 1))


def _with_valid_crc(batch: bytes) -> bytes:
    if batch[16] >= 2:
        return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]
    return batch[:12] + struct.pack(">I", zlib.crc32(batch[16:])) + batch[16:]


def _change_batch(
    files: LogDirFiles, random: Random, change: Callable[[bytearray, Random], str | None], *, crc: bool
) -> str | None:
    log = _log_with_batches(files, random)
    if log is None:
        return None
    name, batches = log
    index = _pick(batches, random)
    batch = batches[index]
    data = files.partition[name]
    content = bytearray(_bytes_of(data, batch))
    description = change(content, random)
    if description is None:
        return None
    new = _with_valid_crc(bytes(content)) if crc else bytes(content)
    files.partition[name] = data[: batch.position] + new + data[batch.position + batch.size :]
    return f"{description} of batch {index} of {len(batches)} in {name} at {batch.position}"


@damage
def repeat_batch(files: LogDirFiles, random: Random) -> str | None:
    log = _log_with_batches(files, random)
    if log is None:
        return None
    name, batches = log
    index = _pick(batches, random)
    at = random.choice([index + 1, random.randrange(len(batches) + 1)])
    data = files.partition[name]
    position = batches[at].position if at < len(batches) else batches[-1].position + batches[-1].size
    files.partition[name] = _insert(data, position, _bytes_of(data, batches[index]))
    return f"batch {index} of {len(batches)} repeated before batch {at} in {name}"


@damage
def swap_batches(files: LogDirFiles, random: Random) -> str | None:
    log = _log_with_batches(files, random, 2)
    if log is None:
        return None
    name, batches = log
    first = random.randrange(len(batches) - 1)
    second = random.choice([first + 1, random.randrange(first + 1, len(batches))])
    data = files.partition[name]
    low, high = batches[first], batches[second]
    between = data[low.position + low.size : high.position]
    swapped = _bytes_of(data, high) + between + _bytes_of(data, low)
    files.partition[name] = data[: low.position] + swapped + data[high.position + high.size :]
    return f"batches {first} and {second} of {len(batches)} in {name}"


@damage
def move_batch(files: LogDirFiles, random: Random) -> str | None:
    log = _log_with_batches(files, random)
    if log is None or len(files.of_kind("log")) < 2:
        return None
    name, batches = log
    index = _pick(batches, random)
    batch = _bytes_of(files.partition[name], batches[index])
    if is_gone := random.random() < 0.5:
        data = files.partition[name]
        files.partition[name] = data[: batches[index].position] + data[batches[index].position + len(batch) :]
    to = random.choice([other for other in files.of_kind("log") if other != name])
    there = batches_of(files.partition[to])
    end = there[-1].position + there[-1].size if there else 0
    position = random.choice([0, end, *(other.position for other in there)])
    files.partition[to] = _insert(files.partition[to], position, batch)
    return f"batch {index} of {name} {'moved' if is_gone else 'copied'} to {to} at {position}"


@damage
def drop_batch(files: LogDirFiles, random: Random) -> str | None:
    log = _log_with_batches(files, random)
    if log is None:
        return None
    name, batches = log
    index = _pick(batches, random)
    data, batch = files.partition[name], batches[index]
    files.partition[name] = data[: batch.position] + data[batch.position + batch.size :]
    return f"batch {index} of {len(batches)} in {name}"


@damage
def batch_of_other_log(files: LogDirFiles, random: Random) -> str | None:
    others = [name for name in files.other if name.endswith(".log") and batches_of(files.other[name])]
    names = files.of_kind("log")
    if not others or not names:
        return None
    source = random.choice(others)
    batch = _bytes_of(files.other[source], random.choice(batches_of(files.other[source])))
    name = random.choice(names)
    there = batches_of(files.partition[name])
    end = there[-1].position + there[-1].size if there else 0
    position = random.choice([0, end, *(other.position for other in there)])
    files.partition[name] = _insert(files.partition[name], position, batch)
    return f"a batch of {source} inserted into {name} at {position}"


@damage
def base_offset(files: LogDirFiles, random: Random) -> str | None:
    """The checksum does not cover it."""

    def change(batch: bytearray, random: Random) -> str:
        before = struct.unpack_from(">q", batch)[0]
        after = random.choice(
            [before + delta for delta in (1, -1, 2, -2, 10, -10, 1000, -1000, 2**31, 2**32, 2**40)]
            + [0, -1, -5, 2**31, 2**63 - 1, -(2**63), files.end, files.end - 1, *files.base_offsets()]
        )
        struct.pack_into(">q", batch, 0, _int64(after))
        return f"base offset {before} to {after}"

    return _change_batch(files, random, change, crc=False)


@damage
def shift_offsets(files: LogDirFiles, random: Random) -> str | None:
    """Shift a batch and all that follow it: as after a hole, or where two logs were joined."""
    log = _log_with_batches(files, random)
    if log is None:
        return None
    name, batches = log
    first, delta = _pick(batches, random), random.choice([1, -1, 5, -5, 100, -100, 2**31 - 100, 2**31, 2**33])
    data = bytearray(files.partition[name])
    for batch in batches[first:]:
        before = struct.unpack_from(">q", data, batch.position)[0]
        struct.pack_into(">q", data, batch.position, _int64(before + delta))
    files.partition[name] = bytes(data)
    return f"by {delta} from batch {first} of {len(batches)} in {name} on"


@damage
def last_offset_delta(files: LogDirFiles, random: Random) -> str | None:
    def change(batch: bytearray, random: Random) -> str | None:
        if batch[16] != 2:
            return None
        before = struct.unpack_from(">i", batch, 23)[0]
        after = random.choice([before + 1, before - 1, before + 5, before + 1000, 0, -1, -1000, 2**31 - 1])
        struct.pack_into(">i", batch, 23, after)
        return f"last offset delta {before} to {after}"

    return _change_batch(files, random, change, crc=True)


@damage
def leader_epoch(files: LogDirFiles, random: Random) -> str | None:
    """The checksum does not cover it."""

    def change(batch: bytearray, random: Random) -> str | None:
        if batch[16] != 2:
            return None
        before = struct.unpack_from(">i", batch, 12)[0]
        after = random.choice([before + 1, before - 1, before + 7, 0, 1, 2, -1, -5, 2**31 - 1])
        struct.pack_into(">i", batch, 12, after)
        return f"leader epoch {before} to {after}"

    return _change_batch(files, random, change, crc=False)


@damage
def leader_epochs_from_here(files: LogDirFiles, random: Random) -> str | None:
    """Change a batch and all that follow it, as if the leader had changed."""
    log = _log_with_batches(files, random)
    if log is None:
        return None
    name, batches = log
    first, epoch = _pick(batches, random), random.choice([0, 1, 2, 3, 5, 100])
    for changed in (log_name for log_name in files.of_kind("log") if log_name >= name):
        data = bytearray(files.partition[changed])
        for batch in batches_of(bytes(data))[first if changed == name else 0 :]:
            if batch.magic == 2:
                struct.pack_into(">i", data, batch.position + 12, epoch)
        files.partition[changed] = bytes(data)
    return f"{epoch} from batch {first} of {name} on"


@damage
def timestamps(files: LogDirFiles, random: Random) -> str | None:
    def change(batch: bytearray, random: Random) -> str | None:
        if batch[16] == 0:
            return None
        at = random.choice([27, 35]) if batch[16] == 2 else 18
        before = struct.unpack_from(">q", batch, at)[0]
        after = random.choice([before + 1, before - 1, before + 10**9, before - 10**9, 0, -1, 2**52])
        struct.pack_into(">q", batch, at, after)
        return f"timestamp {before} (at byte {at}) to {after}"

    return _change_batch(files, random, change, crc=True)


@damage
def timestamp_without_crc(files: LogDirFiles, random: Random) -> str | None:
    def change(batch: bytearray, random: Random) -> str | None:
        if batch[16] == 0:
            return None
        struct.pack_into(">q", batch, 35 if batch[16] == 2 else 18, random.randrange(2**41))
        return "timestamp"

    return _change_batch(files, random, change, crc=False)


@damage
def producer_fields(files: LogDirFiles, random: Random) -> str | None:
    """Change the producer id, epoch or sequence, or whether the batch is transactional."""

    def change(batch: bytearray, random: Random) -> str | None:
        if batch[16] != 2:
            return None
        field = random.choice(["id", "epoch", "sequence", "transactional"])
        if field == "id":
            after = random.choice([-1, 0, 1, 2, 1000, 2**40])
            struct.pack_into(">q", batch, 43, after)
        elif field == "epoch":
            after = random.choice([-1, 0, 1, 2, 5, 30000])
            struct.pack_into(">h", batch, 51, after)
        elif field == "sequence":
            after = random.choice([-1, 0, 7, 2**31 - 2])
            struct.pack_into(">i", batch, 53, after)
        else:
            batch[22] ^= 16
            after = batch[22] >> 4 & 1
        return f"producer's {field} to {after}"

    return _change_batch(files, random, change, crc=True)


@damage
def attributes(files: LogDirFiles, random: Random) -> str | None:
    """Flip one bit: of the codec, the timestamp type, a flag, or an unused one."""

    def change(batch: bytearray, random: Random) -> str:
        at = 22 if batch[16] == 2 else 17
        bit = random.randrange(8)
        batch[at] ^= 1 << bit
        return f"bit {bit} of the attributes"

    return _change_batch(files, random, change, crc=True)


@damage
def record_count(files: LogDirFiles, random: Random) -> str | None:
    def change(batch: bytearray, random: Random) -> str | None:
        if batch[16] != 2:
            return None
        before = struct.unpack_from(">i", batch, 57)[0]
        after = random.choice([before + 1, before - 1, 0, -1, 2**31 - 1])
        struct.pack_into(">i", batch, 57, after)
        return f"record count {before} to {after}"

    return _change_batch(files, random, change, crc=True)


@damage
def magic(files: LogDirFiles, random: Random) -> str | None:
    def change(batch: bytearray, random: Random) -> str:
        before, after = batch[16], random.choice([0, 1, 2, 3, 127, 255])
        batch[16] = after
        return f"magic {before} to {after}"

    return _change_batch(files, random, change, crc=random.random() < 0.5)


@damage
def size(files: LogDirFiles, random: Random) -> str | None:
    def change(batch: bytearray, random: Random) -> str:
        before = struct.unpack_from(">i", batch, 8)[0]
        after = random.choice([before + 1, before - 1, before + 500, 0, 13, 14, 48, 49, -1, 2**31 - 1])
        struct.pack_into(">i", batch, 8, after)
        return f"size {before} to {after}"

    return _change_batch(files, random, change, crc=False)


@damage
def flip_bit(files: LogDirFiles, random: Random) -> str | None:
    def change(batch: bytearray, random: Random) -> str:
        at, bit = (
            random.choice([random.randrange(len(batch)), random.randrange(min(61, len(batch)))]),
            random.randrange(8),
        )
        batch[at] ^= 1 << bit
        return f"bit {bit} of byte {at}"

    return _change_batch(files, random, change, crc=False)


# Files of segments


@damage
def truncate_log(files: LogDirFiles, random: Random) -> str | None:
    log = _log_with_batches(files, random)
    if log is None:
        return None
    name, batches = log
    batch = batches[_pick(batches, random)]
    end = batch.position + random.choice(
        [0, batch.size, batch.size - 1, random.randrange(batch.size), 8, 12, 16, 17, 60]
    )
    files.partition[name] = files.partition[name][:end]
    return f"{name} to {end} bytes"


@damage
def extend_log(files: LogDirFiles, random: Random) -> str | None:
    names = files.of_kind("log")
    if not names:
        return None
    name = random.choice([names[-1], random.choice(names)])
    data = files.partition[name]
    batches = batches_of(data)
    how = random.choice(["zeros", "garbage", "zeros and a batch", "part of a batch", "a text"])
    if how == "zeros":
        added = bytes(random.choice([1, 8, 11, 12, 16, 17, 61, 5000]))
    elif how == "garbage" or not batches:
        added = random.randbytes(random.choice([1, 7, 12, 17, 30, 61, 500, 5000]))
    elif how == "zeros and a batch":
        added = bytes(random.choice([1, 17, 500])) + _bytes_of(data, random.choice(batches))
    elif how == "part of a batch":
        batch = _bytes_of(data, random.choice(batches))
        added = batch[: random.randrange(1, len(batch))]
    else:
        added = b"not a batch at all, just text. " * 4
    files.partition[name] = data + added
    return f"{name} by {len(added)} bytes: {how}"


@damage
def empty_log(files: LogDirFiles, random: Random) -> str | None:
    names = files.of_kind("log")
    if not names:
        return None
    name = random.choice(names)
    files.partition[name] = b""
    return name


@damage
def zero_range(files: LogDirFiles, random: Random) -> str | None:
    """Zero a part of a file, like a block that never reached the disk."""
    names = [name for name in files.of_kind("log") if files.partition[name]]
    if not names:
        return None
    name = random.choice(names)
    data = files.partition[name]
    first = random.choice([0, random.randrange(len(data))])
    end = random.choice([len(data), random.randrange(first, len(data)) + 1])
    files.partition[name] = data[:first] + bytes(end - first) + data[end:]
    return f"{name} from {first} to {end}"


@damage
def swap_logs(files: LogDirFiles, random: Random) -> str | None:
    names = files.of_kind("log")
    if len(names) < 2:
        return None
    first, second = random.sample(names, 2)
    partition = files.partition
    partition[first], partition[second] = partition[second], partition[first]
    return f"{first} and {second}"


@damage
def remove_segment(files: LogDirFiles, random: Random) -> str | None:
    bases = files.base_offsets()
    if not bases:
        return None
    base = random.choice(bases)
    kinds = random.choice([("log",), ("log", *INDEXES), ("log", *INDEXES, "snapshot")])
    for kind in kinds:
        files.partition.pop(file_name(base, kind), None)
    return f"{base}: {', '.join(kinds)}"


@damage
def rename_segment(files: LogDirFiles, random: Random) -> str | None:
    bases = files.base_offsets()
    if not bases:
        return None
    base = random.choice(bases)
    deltas = [1, -1, 3, -3, 50, -50, 10**6, 2**31, 2**40]
    to = random.choice([*(base + delta for delta in deltas), 0, *bases, files.end])
    if to < 0 or to == base:
        return None
    is_copy, kinds = random.random() < 0.3, random.choice([("log",), ("log", *INDEXES)])
    for kind in kinds:
        if (data := files.partition.get(file_name(base, kind))) is not None:
            files.partition[file_name(to, kind)] = data
            if not is_copy:
                del files.partition[file_name(base, kind)]
    return f"{base} {'copied' if is_copy else 'renamed'} to {to}: {', '.join(kinds)}"


@damage
def state_of_segment(files: LogDirFiles, random: Random) -> str | None:
    """Rename files of a segment, as an interrupted compaction or removal leaves them."""
    bases = files.base_offsets()
    if not bases:
        return None
    base, state = random.choice(bases), random.choice(["swap", "swap", "cleaned", "deleted"])
    names = [file_name(base, kind) for kind in ("log", *INDEXES, "snapshot")]
    names = [name for name in names if name in files.partition]
    if random.random() < 0.5:
        names = random.sample(names, random.randint(1, len(names)))
    is_copy = random.random() < 0.4
    for name in names:
        files.partition[f"{name}.{state}"] = files.partition[name]
        if not is_copy:
            del files.partition[name]
    return f"{' and '.join(names)} {'copied' if is_copy else 'renamed'} to .{state}"


@damage
def merged_to_swap(files: LogDirFiles, random: Random) -> str | None:
    """Merge segments into one .swap, as a compaction does that is interrupted shortly before its end."""
    bases = files.base_offsets()
    if len(bases) < 2:
        return None
    first = random.randrange(len(bases) - 1)
    group = bases[first : random.randrange(first + 1, len(bases)) + 1]
    data = b"".join(files.partition[file_name(base, "log")] for base in group)
    files.partition[file_name(group[0], "log.swap")] = data
    kept = random.sample(group, random.randint(0, len(group)))
    for base in group:
        if base not in kept:
            for kind in ("log", *INDEXES):
                files.partition.pop(file_name(base, kind), None)
    if random.random() < 0.7:
        files.partition[file_name(group[0], "index.swap")] = b""
        files.partition[file_name(group[0], "timeindex.swap")] = b""
    return f"{group}; {sorted(kept)} are left"


# Indexes


@damage
def change_index(files: LogDirFiles, random: Random) -> str | None:
    names = files.of_kind(*INDEXES)
    if not names:
        return None
    name = random.choice(names)
    kind = name.split(".")[1]
    data, entry = files.partition[name], ENTRY_BYTES[kind]
    how = random.choice(
        [
            "of another",
            "cut to entries",
            "cut inside",
            "zeros",
            "garbage",
            "gone",
            "preallocated",
            "flip",
            "empty",
        ]
    )
    if how == "of another":
        others = [other for other in files.of_kind(kind) if other != name]
        new = files.partition[random.choice(others)] if others else b""
    elif how == "cut to entries":
        new = data[: random.randrange(len(data) // entry + 1) * entry]
    elif how == "cut inside":
        new = data[: random.randrange(len(data) + 1)]
    elif how == "zeros":
        new = bytes(random.choice([len(data), entry, 10 * entry, 4096]))
    elif how == "garbage":
        new = random.randbytes(random.choice([len(data), entry, 10 * entry, entry + 3]))
    elif how == "gone":
        del files.partition[name]
        return f"{name} gone"
    elif how == "preallocated":
        new = data + bytes(100 * entry)
    elif how == "empty":
        new = b""
    else:
        if not data:
            return None
        changed = bytearray(data)
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        new = bytes(changed)
    files.partition[name] = new
    return f"{name} {how}"


@damage
def lose_indexes(files: LogDirFiles, random: Random) -> str | None:
    kinds = random.choice([("index",), ("timeindex",), ("txnindex",), INDEXES])
    names = files.of_kind(*kinds)
    for name in names:
        del files.partition[name]
    return f"all of {', '.join(kinds)}" if names else None


@damage
def orphan_index(files: LogDirFiles, random: Random) -> str | None:
    base = random.choice([0, files.end, files.end + 5, random.randint(0, max(1, files.end))])
    if base in files.base_offsets():
        return None
    kind = random.choice(INDEXES)
    files.partition[file_name(base, kind)] = random.choice([b"", bytes(3 * ENTRY_BYTES[kind])])
    return file_name(base, kind)


# Producer snapshots, leader epochs and checkpoints


@damage
def change_snapshot(files: LogDirFiles, random: Random) -> str | None:
    names = files.of_kind("snapshot")
    if not names:
        return None
    name = random.choice([names[-1], random.choice(names)])
    data = files.partition[name]
    how = random.choice(
        ["gone", "all gone", "garbage", "flip", "cut", "empty", "renamed", "other", "of other log"]
    )
    if how in ("flip", "cut") and not data:
        return None
    if how == "gone":
        del files.partition[name]
    elif how == "all gone":
        for snapshot in names:
            del files.partition[snapshot]
    elif how == "garbage":
        files.partition[name] = random.randbytes(random.choice([3, 10, 56, 100]))
    elif how == "flip":
        changed = bytearray(data)
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        files.partition[name] = bytes(changed)
    elif how == "cut":
        files.partition[name] = data[: random.randrange(len(data))]
    elif how == "empty":
        files.partition[name] = b""
    elif how == "renamed":
        to = random.choice([0, 1, files.end + 7, random.randint(0, max(1, files.end)), *files.base_offsets()])
        files.partition[file_name(to, "snapshot")] = data
        if random.random() < 0.5 and file_name(to, "snapshot") != name:
            del files.partition[name]
        how = f"renamed to {to}"
    elif how == "other":
        files.partition[name] = files.partition[random.choice(names)]
    else:
        others = [other for other in files.other if other.endswith(".snapshot")]
        if not others:
            return None
        files.partition[name] = files.other[random.choice(others)]
    return f"{name} {how}"


@damage
def change_leader_epochs(files: LogDirFiles, random: Random) -> str | None:
    text = files.partition.get(EPOCHS, b"0\n0\n").decode(errors="replace")
    rows = [tuple(map(int, line.split())) for line in text.split("\n")[2:] if len(line.split()) == 2]
    how = random.choice(
        ["gone", "empty", "other log", "shifted", "more", "none", "from zero", "not in order"]
    )
    if how == "gone":
        files.partition.pop(EPOCHS, None)
        return how
    if how == "empty":
        files.partition[EPOCHS] = b""
        return how
    if how == "other log":
        if EPOCHS not in files.other:
            return None
        files.partition[EPOCHS] = files.other[EPOCHS]
        return how
    if how == "shifted":
        delta = random.choice([1, 5, 100])
        rows = [(epoch, offset + delta) for epoch, offset in rows]
    elif how == "more":
        last = rows[-1] if rows else (0, 0)
        rows.append(
            (
                last[0] + random.choice([1, 2]),
                random.choice([last[1] + 1, files.end - 1, files.end, files.end + 9]),
            )
        )
    elif how == "none":
        rows = []
    elif how == "from zero":
        rows = [(0, 0), (1, files.end // 3), (2, files.end // 2)]
    else:
        rows = [(3, files.end // 2), (1, files.end // 3)]
    rows = [(epoch, max(0, offset)) for epoch, offset in rows]
    lines = "".join(f"{epoch} {offset}\n" for epoch, offset in rows)
    files.partition[EPOCHS] = f"0\n{len(rows)}\n{lines}".encode()
    return f"{how}: {rows}"


@damage
def garble_leader_epochs(files: LogDirFiles, random: Random) -> str | None:
    content = random.choice(
        [b"garbage\n", b"0\n5\n0 0\n", b"1\n1\n0 0\n", b"0\n1\n0\n", b"0\n1\n-1 0\n", bytes(40)]
    )
    files.partition[EPOCHS] = content
    return repr(content)


@damage
def change_recovery_point(files: LogDirFiles, random: Random) -> str | None:
    point = random.choice(
        [0, files.end, files.end + 100, random.randint(0, files.end), *files.base_offsets()]
    )
    files.checkpoints[RECOVERY_POINT] = checkpoint(point)
    return str(point)


@damage
def change_log_start(files: LogDirFiles, random: Random) -> str | None:
    start = random.choice(
        [
            0,
            files.end,
            files.end + 100,
            random.randint(0, files.end),
            random.randint(0, files.end),
            *files.base_offsets(),
        ]
    )
    files.checkpoints[LOG_START] = checkpoint(start)
    return str(start)


@damage
def garble_checkpoint(files: LogDirFiles, random: Random) -> str | None:
    name = random.choice([RECOVERY_POINT, LOG_START])
    content = random.choice([b"", b"garbage", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"1\n1\nt 0 1\n", None])
    if content is None:
        files.checkpoints.pop(name, None)
    else:
        files.checkpoints[name] = content
    return f"{name} to {content!r}"


@damage
def mark_clean_shutdown(files: LogDirFiles, random: Random) -> str | None:
    if CLEAN_SHUTDOWN in files.checkpoints:
        return None
    files.checkpoints[CLEAN_SHUTDOWN] = b'{"version":0,"brokerEpoch":7}'
    return "the marker is there"
