"""Where recovery, or reading, means to differ from a broker, and why."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from native_log.checkpoints.leader_epochs import parse_leader_epochs

from .damage import EPOCHS, batches_of, goes_back, last_offset_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .damage import LogDirFiles
    from .trial import Result


class Meant(NamedTuple):
    """A difference of such a kind (a regular expression) is meant where `holds` of it."""

    kinds: str
    reason: str
    holds: Callable[[Result, str], bool]


def meant(result: Result, kind: str, text: str) -> str | None:
    """The reason why a difference is none to mend; None if there is no such reason."""
    found = (one.reason for one in MEANT if re.fullmatch(one.kinds, kind) and one.holds(result, text))
    return next(found, None)


def _log_swap_without_index(files: LogDirFiles) -> bool:
    return any(
        name.endswith(".log.swap") and name.replace(".log.", ".index.") not in files.partition
        for name in files.partition
    )


def _misleading_index(files: LogDirFiles) -> bool:
    """Whether an entry of an offset index points to anything but the batch with its offset."""
    for name, data in files.partition.items():
        base, _, kind = name.partition(".")
        if kind in ("index", "index.swap"):
            log = files.partition.get(f"{base}.log", b"")
            ends = {one.position: last_offset_of(log, one) for one in batches_of(log)}
            for offset, position in struct.iter_unpack(">ii", data[: len(data) // 8 * 8]):
                if (offset, position) != (0, 0) and ends.get(position, -1) < int(base) + offset:
                    return True
    return False


def _overflows(files: LogDirFiles) -> bool:
    """Whether a segment has a batch whose offset is too far from its base offset for an index entry."""
    logs = {
        name: data for name, data in files.partition.items() if name.split(".", 1)[-1] in ("log", "log.swap")
    }
    return any(
        last_offset_of(data, one) - int(name.split(".")[0]) >= 2**31
        for name, data in logs.items()
        for one in batches_of(data)
    )


def _epochs_behind(files: LogDirFiles, end_offset: int) -> bool:
    try:
        entries = parse_leader_epochs(files.partition.get(EPOCHS, b"0\n0\n").decode())
    except ValueError:
        return False
    return any(one.start_offset >= end_offset for one in entries)


_UNSEEN = {"attributes", "magic", "producer_fields", "record_count"}
"""Damages that leave a right checksum, or none, over records that are not as the header says."""

MEANT = [
    Meant(
        "verify-after-(records|order)",
        "The checksum is right, and the records or the order of offsets are not. A broker looks no deeper in "
        "recovery, and ours cuts off no more; reading and verify take such batches for damaged.",
        lambda *_: True,
    ),
    Meant(
        "verify-after-missing-end",
        "Where such a batch is the last one, a log that is opened ends before it; the producer state was "
        "written for the end that a broker sees.",
        lambda result, _: bool({"verify-after-records", "verify-after-order"} & result.all_kinds()),
    ),
    Meant(
        "verify-after-(offset|time|transaction)-index",
        "An index of batches whose offsets go back is what a broker makes of them, too.",
        lambda result, _: "verify-after-order" in result.all_kinds(),
    ),
    Meant(
        "verify-after-leader-epochs",
        "A broker believes a checkpoint of leader epochs up to its latest epoch, whatever batches say, and "
        "so does recovery. verify compares the two, and tells how to rebuild the file.",
        lambda *_: True,
    ),
    Meant(
        "(broker-after-)?file-snapshot",
        "Snapshots of earlier segments can be made again. A broker writes some more of them, and leaves "
        "unreadable ones that it does not need.",
        lambda _, text: text.endswith(("only in theirs", "only in then by a broker")),
    ),
    Meant(
        "(broker-after-)?((content|file)-snapshot|content-txnindex|epochs)|end|read-recovered",
        "Where offsets go back, a broker takes the log's end from what it finds for the last index entry. "
        "It keeps open transactions by their first offset, and producer state by an end that goes back, too.",
        lambda result, _: goes_back(result.made.files.partition),
    ),
    Meant(
        "content-snapshot",
        "Where a snapshot is lost, a broker reads the batches since the one before it as the offset index "
        "points to them, though an entry is wrong; we check the entry against the batch.",
        lambda result, _: _misleading_index(result.made.files),
    ),
    Meant(
        "(broker-after-)?content-snapshot",
        "A broker reads the first record of a transaction's marker, whatever its batch says of their count "
        "and compression. Where we cannot read it, the coordinator's epoch stays unknown.",
        lambda result, _: not _UNSEEN.isdisjoint(result.made.kinds),
    ),
    Meant(
        "(content|file)-(index|timeindex|txnindex)|epochs|(content|file)-snapshot",
        "To a .log.swap without its .index.swap a broker makes an index of zeros, to look at its end, and "
        "later takes that for the segment's. We take the index for lost: the segment is recovered.",
        lambda result, _: _log_swap_without_index(result.made.files),
    ),
    Meant(
        "torn-(index|timeindex|txnindex)",
        "A torn entry below the recovery point is trimmed by a broker when it closes the log. We leave the "
        "files of such segments alone; lookups do not use what is torn.",
        lambda *_: True,
    ),
    Meant(
        "load-(end|read|segments)",
        "After a clean shutdown a broker believes the offset index and the last batch's header, recovers "
        "segments without an index, and serves no more of a segment than lies before damage. We check index "
        "entries, change nothing and look for batches behind damage, which verify reports.",
        lambda result, _: result.reported,
    ),
    Meant(
        "start|end|epochs|(content|file)-.*",
        "A segment with an offset that is 2^31 or more above its base offset is split by a broker, since old "
        "cleaners made such ones. One flipped bit in a base offset is likelier: the log ends there.",
        lambda result, _: _overflows(result.made.files),
    ),
    Meant(
        "read-recovered|load-read",
        "A control batch is passed over by its header. A consumer looks at its first record, and fails where "
        "the count of records or the compression is wrong.",
        lambda result, _: not _UNSEEN.isdisjoint(result.made.kinds),
    ),
    Meant(
        "broker-after-refuses",
        "What a broker refuses to load for producer state or control records lies in batches with a right "
        "checksum. Recovery does not cut them off.",
        lambda result, _: not _UNSEEN.isdisjoint(result.made.kinds),
    ),
    Meant(
        "epochs",
        "A broker compares the epochs of batches with entries that lie behind the log's new end, and removes "
        "those entries last. It comes to our result when it recovers the log a second time.",
        lambda result, _: _epochs_behind(result.made.files, result.end_offset),
    ),
    Meant(
        "broker-after-epochs",
        "Of a log whose start and end are the same, brokers drop the last epoch with each load, and read it "
        "again with the next.",
        lambda result, _: result.is_empty,
    ),
]
