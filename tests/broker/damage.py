"""Damaged copies of the golden logs, each made from a seed.

A log directory is held in memory: the files of one partition, and the checkpoints beside it. A damage is a
function that changes it and says in a few words what it did.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from tests.conftest import GOLDEN, GoldenPartition, golden_id, golden_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

TOPIC, DIRECTORY = "t", "t-0"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
INDEXES = ("index", "timeindex", "txnindex")
ENTRY_BYTES = {"index": 8, "timeindex": 12, "txnindex": 34}
_LARGEST_LOG = 60_000


class Batch(NamedTuple):
    position: int
    size: int
    magic: int


def batches_of(data: bytes) -> list[Batch]:
    """Those at the beginning of a .log file that look whole."""
    found, position = [], 0
    while position + 17 <= len(data):
        size = 12 + struct.unpack_from(">i", data, position + 8)[0]
        least = 61 if data[position + 16] >= 2 else 26
        if size < least or position + size > len(data):
            break
        found.append(Batch(position, size, data[position + 16]))
        position += size
    return found


def last_offset_of(data: bytes, batch: Batch) -> int:
    """By the header: of a compressed batch before magic 2, that is the base offset field."""
    offset: int = struct.unpack_from(">q", data, batch.position)[0]
    return offset + (struct.unpack_from(">i", data, batch.position + 23)[0] if batch.magic >= 2 else 0)


def goes_back(files: dict[str, bytes]) -> bool:
    """Whether batches of these .log files repeat offsets, go back, or lie beyond their segment."""
    logs = sorted(
        (int(name.split(".")[0]), data)
        for name, data in files.items()
        if name.split(".", 1)[-1] in ("log", "log.swap")
    )
    previous = -1
    for number, (base, data) in enumerate(logs):
        if base <= previous:
            return True
        for one in batches_of(data):
            first, last = struct.unpack_from(">q", data, one.position)[0], last_offset_of(data, one)
            if first <= previous or last < first or first < base:
                return True
            previous = last
        if number + 1 < len(logs) and previous >= logs[number + 1][0]:
            return True
    return False


def name_of(base_offset: int, kind: str) -> str:
    return f"{base_offset:020d}.{kind}"


@dataclass
class LogDirFiles:
    """The files of a log directory with one partition, which damages change.

    Attributes:
        partition: by name, those in the partition's directory.
        beside: by name, those of the log directory itself.
        other: the files of another log, to mix up with these.
        end: the log end offset before any damage.
    """

    partition: dict[str, bytes]
    beside: dict[str, bytes]
    other: dict[str, bytes]
    end: int

    def bases(self) -> list[int]:
        return sorted(int(name.split(".")[0]) for name in self.partition if name.endswith(".log"))

    def of_kind(self, *kinds: str) -> list[str]:
        return sorted(name for name in self.partition if name.split(".", 1)[-1] in kinds)

    def offset_of(self, checkpoint: str) -> int | None:
        """What a checkpoint says of the partition; None if it says nothing, or cannot be read."""
        lines = self.beside.get(checkpoint, b"").decode().split("\n")
        return int(lines[2].split()[2]) if lines[:2] == ["0", "1"] and len(lines[2].split()) == 3 else None

    def write(self, path: Path) -> None:
        (path / DIRECTORY).mkdir(parents=True)
        for name, data in self.beside.items():
            (path / name).write_bytes(data)
        for name, data in self.partition.items():
            (path / DIRECTORY / name).write_bytes(data)


DAMAGES: dict[str, Callable[[LogDirFiles, Random], str | None]] = {}
"""By name; each returns what it did, None where there is nothing to do it to."""


def damage(
    function: Callable[[LogDirFiles, Random], str | None],
) -> Callable[[LogDirFiles, Random], str | None]:
    DAMAGES[function.__name__] = function
    return function


@functools.cache
def sources() -> tuple[GoldenPartition, ...]:
    """The golden partitions, but for the large ones and those of which there is nothing to damage."""
    return tuple(
        one
        for one in golden_partitions()
        if 0 < sum(file.stat().st_size for file in one.path.glob("*.log")) <= _LARGEST_LOG
    )


def files_of(partition: GoldenPartition) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in partition.path.iterdir()
        if file.is_file() and file.name != "partition.metadata"
    }


@dataclass(frozen=True)
class Case:
    """A damaged log, made again from its seed.

    Attributes:
        without: numbers of damages that are left out, to find those that matter.
    """

    seed: int
    without: frozenset[int] = frozenset()

    def make(self) -> MadeCase:
        random = Random(self.seed)
        source, other = random.choice(sources()), random.choice(sources())
        expected = source.expected
        files = LogDirFiles(files_of(source), {}, files_of(other), expected["latest"])
        bases = files.bases()
        start = expected["earliest"]
        point = random.choice([None, 0, 0, random.choice(bases), files.end, random.randint(0, files.end)])
        if start > bases[0]:
            files.beside[LOG_START] = checkpoint(start)
        if point is not None:
            files.beside[RECOVERY_POINT] = checkpoint(point)
        if random.random() < 0.2:
            files.beside[CLEAN_SHUTDOWN] = b'{"version":0,"brokerEpoch":7}'
        made = MadeCase(self, golden_id(source), golden_id(other), interval_of(source), files)
        for number in range(random.choice([1, 1, 1, 2, 2, 3, 4])):
            of_this = Random(f"{self.seed}/{number}")
            if number not in self.without:
                while (done := made.apply(of_this)) is None:
                    pass
                made.damages.append(f"{number}: {done}")
        return made


@dataclass
class MadeCase:
    case: Case
    source: str
    other: str
    index_interval_bytes: int
    files: LogDirFiles
    damages: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def apply(self, random: Random) -> str | None:
        name = random.choice(sorted(DAMAGES))
        done = DAMAGES[name](self.files, random)
        if done is not None:
            self.kinds.append(name)
            return f"{name}: {done}"
        return None

    def __str__(self) -> str:
        beside = {name: data.decode(errors="replace") for name, data in sorted(self.files.beside.items())}
        lines = [f"seed {self.case.seed}: a copy of {self.source} (other log: {self.other}), {beside}"]
        return "\n  ".join([*lines, *self.damages])


def interval_of(source: GoldenPartition) -> int:
    expected = json.loads((GOLDEN / source.fixture / "expected.json").read_text())
    return int(expected["topics"][source.topic]["config"].get("index.interval.bytes", 4096))


def checkpoint(offset: int) -> bytes:
    return f"0\n1\n{TOPIC} 0 {offset}\n".encode()


# Batches


def _log_with_batches(files: LogDirFiles, random: Random, least: int = 1) -> tuple[str, list[Batch]] | None:
    names = [name for name in files.of_kind("log") if len(batches_of(files.partition[name])) >= least]
    if not names:
        return None
    name = random.choice(names)
    return name, batches_of(files.partition[name])


def _pick(batches: Sequence[Batch], random: Random) -> int:
    """Often the first or the last."""
    return random.choice([0, len(batches) - 1, *(random.randrange(len(batches)) for _ in range(4))])


def _cut_out(data: bytes, batch: Batch) -> bytes:
    return data[batch.position : batch.position + batch.size]


def _insert(data: bytes, position: int, what: bytes) -> bytes:
    return data[:position] + what + data[position:]


def with_valid_crc(batch: bytes) -> bytes:
    """Its checksum made right for what it holds."""
    if batch[16] >= 2:
        return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]
    return batch[:12] + struct.pack(">I", zlib.crc32(batch[16:])) + batch[16:]


def _change_batch(
    files: LogDirFiles, random: Random, change: Callable[[bytearray, Random], str | None], *, crc: bool
) -> str | None:
    found = _log_with_batches(files, random)
    if found is None:
        return None
    name, batches = found
    index = _pick(batches, random)
    one = batches[index]
    data = files.partition[name]
    content = bytearray(_cut_out(data, one))
    done = change(content, random)
    if done is None:
        return None
    new = with_valid_crc(bytes(content)) if crc else bytes(content)
    files.partition[name] = data[: one.position] + new + data[one.position + one.size :]
    return f"{done} of batch {index} of {len(batches)} in {name} at {one.position}"


@damage
def repeat_batch(files: LogDirFiles, random: Random) -> str | None:
    found = _log_with_batches(files, random)
    if found is None:
        return None
    name, batches = found
    index = _pick(batches, random)
    at = random.choice([index + 1, random.randrange(len(batches) + 1)])
    data = files.partition[name]
    position = batches[at].position if at < len(batches) else batches[-1].position + batches[-1].size
    files.partition[name] = _insert(data, position, _cut_out(data, batches[index]))
    return f"batch {index} of {len(batches)} once more before batch {at} in {name}"


@damage
def swap_batches(files: LogDirFiles, random: Random) -> str | None:
    found = _log_with_batches(files, random, 2)
    if found is None:
        return None
    name, batches = found
    first = random.randrange(len(batches) - 1)
    second = random.choice([first + 1, random.randrange(first + 1, len(batches))])
    data = files.partition[name]
    one, other = batches[first], batches[second]
    between = data[one.position + one.size : other.position]
    files.partition[name] = (
        data[: one.position] + _cut_out(data, other) + between + _cut_out(data, one)
        + data[other.position + other.size :]
    )  # fmt: skip
    return f"batches {first} and {second} of {len(batches)} in {name}"


@damage
def move_batch(files: LogDirFiles, random: Random) -> str | None:
    found = _log_with_batches(files, random)
    if found is None or len(files.of_kind("log")) < 2:
        return None
    name, batches = found
    index = _pick(batches, random)
    batch = _cut_out(files.partition[name], batches[index])
    if is_gone := random.random() < 0.5:
        data = files.partition[name]
        files.partition[name] = data[: batches[index].position] + data[batches[index].position + len(batch) :]
    to = random.choice([one for one in files.of_kind("log") if one != name])
    there = batches_of(files.partition[to])
    end = there[-1].position + there[-1].size if there else 0
    position = random.choice([0, end, *(one.position for one in there)])
    files.partition[to] = _insert(files.partition[to], position, batch)
    return f"batch {index} of {name} {'moved' if is_gone else 'copied'} to {to} at {position}"


@damage
def drop_batch(files: LogDirFiles, random: Random) -> str | None:
    found = _log_with_batches(files, random)
    if found is None:
        return None
    name, batches = found
    index = _pick(batches, random)
    data, one = files.partition[name], batches[index]
    files.partition[name] = data[: one.position] + data[one.position + one.size :]
    return f"batch {index} of {len(batches)} in {name}"


@damage
def batch_of_other_log(files: LogDirFiles, random: Random) -> str | None:
    theirs = [name for name in files.other if name.endswith(".log") and batches_of(files.other[name])]
    names = files.of_kind("log")
    if not theirs or not names:
        return None
    their = random.choice(theirs)
    batch = _cut_out(files.other[their], random.choice(batches_of(files.other[their])))
    name = random.choice(names)
    there = batches_of(files.partition[name])
    end = there[-1].position + there[-1].size if there else 0
    position = random.choice([0, end, *(one.position for one in there)])
    files.partition[name] = _insert(files.partition[name], position, batch)
    return f"one of {their} into {name} at {position}"


@damage
def base_offset(files: LogDirFiles, random: Random) -> str | None:
    """It lies outside of the checksum."""

    def change(batch: bytearray, random: Random) -> str:
        before = struct.unpack_from(">q", batch)[0]
        after = random.choice(
            [before + delta for delta in (1, -1, 2, -2, 10, -10, 1000, -1000, 2**31, 2**32, 2**40)]
            + [0, -1, -5, 2**31, 2**63 - 1, -(2**63), files.end, files.end - 1, *files.bases()]
        )
        struct.pack_into(">q", batch, 0, max(-(2**63), min(after, 2**63 - 1)))
        return f"base offset {before} to {after}"

    return _change_batch(files, random, change, crc=False)


@damage
def shift_offsets(files: LogDirFiles, random: Random) -> str | None:
    """Of all batches from one on: as after a hole, or a log glued together."""
    found = _log_with_batches(files, random)
    if found is None:
        return None
    name, batches = found
    first, delta = _pick(batches, random), random.choice([1, -1, 5, -5, 100, -100, 2**31 - 100, 2**31, 2**33])
    data = bytearray(files.partition[name])
    for one in batches[first:]:
        before = struct.unpack_from(">q", data, one.position)[0]
        struct.pack_into(">q", data, one.position, before + delta)
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
    """It lies outside of the checksum."""

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
    """Of all batches from one on, as if a leader had changed."""
    found = _log_with_batches(files, random)
    if found is None:
        return None
    name, batches = found
    first, epoch = _pick(batches, random), random.choice([0, 1, 2, 3, 5, 100])
    later = [one for one in files.of_kind("log") if one > name]
    for log in (name, *later):
        data = bytearray(files.partition[log])
        for one in batches_of(bytes(data))[first if log == name else 0 :]:
            if one.magic == 2:
                struct.pack_into(">i", data, one.position + 12, epoch)
        files.partition[log] = bytes(data)
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
    """Producer id, epoch and sequence, or whether the batch is transactional."""

    def change(batch: bytearray, random: Random) -> str | None:
        if batch[16] != 2:
            return None
        what = random.choice(["id", "epoch", "sequence", "transactional"])
        if what == "id":
            after = random.choice([-1, 0, 1, 2, 1000, 2**40])
            struct.pack_into(">q", batch, 43, after)
        elif what == "epoch":
            after = random.choice([-1, 0, 1, 2, 5, 30000])
            struct.pack_into(">h", batch, 51, after)
        elif what == "sequence":
            after = random.choice([-1, 0, 7, 2**31 - 2])
            struct.pack_into(">i", batch, 53, after)
        else:
            batch[22] ^= 16
            after = batch[22] >> 4 & 1
        return f"producer's {what} to {after}"

    return _change_batch(files, random, change, crc=True)


@damage
def attributes(files: LogDirFiles, random: Random) -> str | None:
    """Codec, timestamp type, control flag and what is unused."""

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
    found = _log_with_batches(files, random)
    if found is None:
        return None
    name, batches = found
    one = batches[_pick(batches, random)]
    end = one.position + random.choice(
        [0, one.size, one.size - 1, random.randrange(one.size), 8, 12, 16, 17, 60]
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
        what = bytes(random.choice([1, 8, 11, 12, 16, 17, 61, 5000]))
    elif how == "garbage" or not batches:
        what = random.randbytes(random.choice([1, 7, 12, 17, 30, 61, 500, 5000]))
    elif how == "zeros and a batch":
        what = bytes(random.choice([1, 17, 500])) + _cut_out(data, random.choice(batches))
    elif how == "part of a batch":
        one = _cut_out(data, random.choice(batches))
        what = one[: random.randrange(1, len(one))]
    else:
        what = b"not a batch at all, just text. " * 4
    files.partition[name] = data + what
    return f"{name} by {len(what)} bytes: {how}"


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
    """A block of a file that never reached the disk."""
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
    one, other = random.sample(names, 2)
    files.partition[one], files.partition[other] = files.partition[other], files.partition[one]
    return f"{one} and {other}"


@damage
def remove_segment(files: LogDirFiles, random: Random) -> str | None:
    bases = files.bases()
    if not bases:
        return None
    base = random.choice(bases)
    kinds = random.choice([("log",), ("log", *INDEXES), ("log", *INDEXES, "snapshot")])
    for kind in kinds:
        files.partition.pop(name_of(base, kind), None)
    return f"{base}: {', '.join(kinds)}"


@damage
def rename_segment(files: LogDirFiles, random: Random) -> str | None:
    bases = files.bases()
    if not bases:
        return None
    base = random.choice(bases)
    deltas = [1, -1, 3, -3, 50, -50, 10**6, 2**31, 2**40]
    to = random.choice([*(base + delta for delta in deltas), 0, *bases, files.end])
    if to < 0 or to == base:
        return None
    is_copy, kinds = random.random() < 0.3, random.choice([("log",), ("log", *INDEXES)])
    for kind in kinds:
        if (data := files.partition.get(name_of(base, kind))) is not None:
            files.partition[name_of(to, kind)] = data
            if not is_copy:
                del files.partition[name_of(base, kind)]
    return f"{base} {'copied' if is_copy else 'renamed'} to {to}: {', '.join(kinds)}"


@damage
def state_of_segment(files: LogDirFiles, random: Random) -> str | None:
    """Files of a segment as a compaction or a removal leaves them that was interrupted."""
    bases = files.bases()
    if not bases:
        return None
    base, state = random.choice(bases), random.choice(["swap", "swap", "cleaned", "deleted"])
    names = [name_of(base, kind) for kind in ("log", *INDEXES, "snapshot")]
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
    """Several segments in one .swap, as of a compaction that was interrupted late."""
    bases = files.bases()
    if len(bases) < 2:
        return None
    first = random.randrange(len(bases) - 1)
    group = bases[first : random.randrange(first + 1, len(bases)) + 1]
    data = b"".join(files.partition[name_of(base, "log")] for base in group)
    files.partition[name_of(group[0], "log.swap")] = data
    kept = random.sample(group, random.randint(0, len(group)))
    for base in group:
        if base not in kept:
            for kind in ("log", *INDEXES):
                files.partition.pop(name_of(base, kind), None)
    if random.random() < 0.7:
        files.partition[name_of(group[0], "index.swap")] = b""
        files.partition[name_of(group[0], "timeindex.swap")] = b""
    return f"{group}, of which {sorted(kept)} are left"


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
        others = [one for one in files.of_kind(kind) if one != name]
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
    if base in files.bases():
        return None
    kind = random.choice(INDEXES)
    files.partition[name_of(base, kind)] = random.choice([b"", bytes(3 * ENTRY_BYTES[kind])])
    return name_of(base, kind)


# What lies beside the segments


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
    if how == "gone":
        del files.partition[name]
    elif how == "all gone":
        for one in names:
            del files.partition[one]
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
        to = random.choice([0, 1, files.end + 7, random.randint(0, max(1, files.end)), *files.bases()])
        files.partition[name_of(to, "snapshot")] = data
        if random.random() < 0.5 and name_of(to, "snapshot") != name:
            del files.partition[name]
        how = f"renamed to {to}"
    elif how == "other":
        files.partition[name] = files.partition[random.choice(names)]
    else:
        theirs = [one for one in files.other if one.endswith(".snapshot")]
        if not theirs:
            return None
        files.partition[name] = files.other[random.choice(theirs)]
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
    what = random.choice(
        [b"garbage\n", b"0\n5\n0 0\n", b"1\n1\n0 0\n", b"0\n1\n0\n", b"0\n1\n-1 0\n", bytes(40)]
    )
    files.partition[EPOCHS] = what
    return repr(what)


@damage
def change_recovery_point(files: LogDirFiles, random: Random) -> str | None:
    point = random.choice([0, files.end, files.end + 100, random.randint(0, files.end), *files.bases()])
    files.beside[RECOVERY_POINT] = checkpoint(point)
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
            *files.bases(),
        ]
    )
    files.beside[LOG_START] = checkpoint(start)
    return str(start)


@damage
def garble_checkpoint(files: LogDirFiles, random: Random) -> str | None:
    name = random.choice([RECOVERY_POINT, LOG_START])
    what = random.choice([b"", b"garbage", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"1\n1\nt 0 1\n", None])
    if what is None:
        files.beside.pop(name, None)
    else:
        files.beside[name] = what
    return f"{name} to {what!r}"


@damage
def mark_clean_shutdown(files: LogDirFiles, random: Random) -> str | None:
    if CLEAN_SHUTDOWN in files.beside:
        return None
    files.beside[CLEAN_SHUTDOWN] = b'{"version":0,"brokerEpoch":7}'
    return "the marker is there"
