"""The differences between kafkalog and a broker that are intended, and why."""

from __future__ import annotations

import re
import struct
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from native_log.checkpoints.leader_epochs import parse_leader_epochs

from .log_dir_files import EPOCHS, batches_of, is_control, last_offset_of, offsets_go_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.log.problems import Problem

    from .comparison import Comparison, Difference
    from .log_dir_files import LogDirFiles


class ExpectedDifference(NamedTuple):
    """
    Attributes:
        kinds: a regular expression for the kinds of difference.
        applies: whether the reason explains a difference, given its text.
    """

    kinds: str
    reason: str
    applies: Callable[[Comparison, str], bool]


def reason_for(difference: Difference, comparison: Comparison) -> str | None:
    """Return why the difference is intended; None if it is not."""
    for expected in EXPECTED_DIFFERENCES:
        if re.fullmatch(expected.kinds, difference.kind) and expected.applies(comparison, difference.text):
            return expected.reason
    return None


def _has_log_swap_without_index(files: LogDirFiles) -> bool:
    return any(
        name.endswith(".log.swap") and name.replace(".log.", ".index.") not in files.partition
        for name in files.partition
    )


def _lacks_index(files: LogDirFiles) -> bool:
    return any(name.replace(".log", ".index") not in files.partition for name in files.of_kind("log"))


def _has_misleading_index(files: LogDirFiles) -> bool:
    """Return whether an entry of an offset index does not point to a batch that reaches its offset."""
    for name in files.of_kind("index", "index.swap"):
        base_offset = name.split(".")[0]
        data, log = files.partition[name], files.partition.get(f"{base_offset}.log", b"")
        last_offsets = {batch.position: last_offset_of(log, batch) for batch in batches_of(log)}
        for offset, position in struct.iter_unpack(">ii", data[: len(data) // 8 * 8]):
            is_padding = (offset, position) == (0, 0)
            if not is_padding and last_offsets.get(position, -1) < int(base_offset) + offset:
                return True
    return False


def _overflows_segment(files: LogDirFiles) -> bool:
    """Return whether an offset is too far above its segment's base offset for an index entry."""
    return any(
        last_offset_of(data, batch) - base_offset >= 2**31
        for base_offset, data in files.logs()
        for batch in batches_of(data)
    )


def _has_epochs_from(files: LogDirFiles, offset: int) -> bool:
    """Return whether the checkpoint of leader epochs has an entry at or above `offset`."""
    try:
        entries = parse_leader_epochs(files.partition.get(EPOCHS, b"0\n0\n").decode())
    except ValueError:
        return False
    return any(entry.start_offset >= offset for entry in entries)


def _had_invalid_batches(comparison: Comparison, text: str) -> bool:
    """Return whether verify reported batches of the same .log file before recovery, too."""
    file = _file_name(text)
    return any(
        problem.kind in ("records", "order") and PurePath(problem.path).name.removesuffix(".swap") == file
        for problem in comparison.problems
    )


def _is_earlier_snapshot_of_kafka(comparison: Comparison, text: str) -> bool:
    """Return whether only a broker has a snapshot, and not at the end of the log."""
    offset = int(_file_name(text).split(".")[0])
    return (text.endswith("only in theirs") and offset != comparison.end_offset) or (
        text.endswith("only in then by a broker") and offset != comparison.end_offset_from_start
    )


def _without_paths(text: str) -> str:
    return re.sub(r"/\S+", "", text)


def _file_name(text: str) -> str:
    """Return the name of the file with which the text of a difference begins."""
    return PurePath(re.split("[,: ]", text, maxsplit=1)[0]).name


def _changed_fields(text: str) -> set[str]:
    """Return the fields of the snapshot entries that differ."""
    return set(re.findall(r"\d\.([a-z_]+) ", text))


def _has_unread_records(comparison: Comparison) -> bool:
    """Return whether records, or their count, are not what the header of their batch says, under a checksum
    that is right or not checked."""
    return not {"attributes", "magic", "producer_fields", "record_count"}.isdisjoint(comparison.log.kinds)


def _has_invalid_control_batch(comparison: Comparison) -> bool:
    """Return whether verify reported the records of a control batch, or a batch may have become one."""
    for problem in comparison.problems:
        log = comparison.log.files.partition.get(PurePath(problem.path).name, b"")
        if problem.kind == "records" and is_control(log, problem.position or 0):
            return True
    return "attributes" in comparison.log.kinds


def _cuts_control_batch(comparison: Comparison, end: int | None, start: int) -> bool:
    """Return whether Kafka cut off what follows a batch that a flipped bit made a control batch.

    A log that is cut below its start is empty, and ends at its start.
    """
    if end is None or "attributes" not in comparison.log.kinds:
        return False
    ends = {
        last_offset_of(data, batch) + 1
        for _, data in comparison.log.files.logs()
        for batch in batches_of(data)
        if is_control(data, batch.position)
    }
    return end in ends or (end == start and min(ends, default=start) < start)


def _goes_back(comparison: Comparison, _: str) -> bool:
    return offsets_go_back(comparison.log.files)


def _kafka_ends_at_base_offset(comparison: Comparison, _: str) -> bool:
    loaded = comparison.loaded
    return (
        loaded is not None
        and offsets_go_back(comparison.log.files)
        and loaded.end_offset == max(loaded.base_offsets)
    )


def _seeks_through_damaged_wrapper(comparison: Comparison, text: str) -> bool:
    """Return whether verify reported a v0 or v1 batch that lies below the log start offset."""
    return "only theirs" in text and any(
        problem.kind in ("crc", "records")
        and problem.offset is not None
        and problem.offset < comparison.start_offset
        and _is_legacy(comparison.log.files, problem)
        for problem in comparison.problems
    )


def _is_legacy(files: LogDirFiles, problem: Problem) -> bool:
    data = files.partition.get(PurePath(problem.path).name, b"")
    return any(batch.position == problem.position and batch.magic < 2 for batch in batches_of(data))


_NOT_LOADED = {"leader-epochs", "log-start-offset", "snapshot", "time-index", "transaction-index"}
"""Kinds of problems that do not change what is read."""

EXPECTED_DIFFERENCES = [
    ExpectedDifference(
        "verify-after-(records|order)",
        "Recovery checks checksums and not records or the order of offsets, as in a broker, and cuts off no "
        "more. verify and readers report such batches as damaged.",
        _had_invalid_batches,
    ),
    ExpectedDifference(
        "verify-after-(missing-end|log-start-offset)",
        "An opened log ends before a last batch whose records or offsets are invalid. Recovery has written "
        "the producer state for the end offset of a broker, after that batch, and kept the log's start below "
        "that end.",
        lambda comparison, _: bool({"verify-after-records", "verify-after-order"} & comparison.kinds()),
    ),
    ExpectedDifference(
        "verify-after-(offset|time|transaction)-index",
        "Recovery indexes batches whose offsets go back as a broker does. Such an index is not right.",
        _goes_back,
    ),
    ExpectedDifference(
        "verify-after-leader-epochs",
        "Recovery keeps leader epochs that contradict the batches in the checkpoint, and adds those of "
        "batches whose offsets are out of order, as a broker does. verify reports them.",
        lambda comparison, _: any(
            problem.kind in ("leader-epochs", "order") for problem in comparison.problems
        ),
    ),
    ExpectedDifference(
        "(broker-after-)?file-snapshot",
        "A broker writes more snapshots of earlier segments, and leaves unreadable ones.",
        _is_earlier_snapshot_of_kafka,
    ),
    ExpectedDifference(
        "end",
        "Where offsets go back, a broker may find no batch for the last index entry. Then its log ends at "
        "the base offset of the last segment, and new records get the offsets of those there.",
        _kafka_ends_at_base_offset,
    ),
    ExpectedDifference(
        "content-snapshot",
        "Where a snapshot is lost, a broker reads the batches since the one before it from where the offset "
        "index points, even if an entry is wrong. kafkalog checks the entry against the batch.",
        lambda comparison, _: _has_misleading_index(comparison.log.files),
    ),
    ExpectedDifference(
        "(broker-after-)?content-snapshot",
        "A broker reads the first record of a transaction marker, regardless of the record count and "
        "compression in its batch header. Where kafkalog cannot read it, the coordinator epoch stays "
        "unknown.",
        lambda comparison, text: (
            _changed_fields(text) == {"coordinator_epoch"} and _has_unread_records(comparison)
        ),
    ),
    ExpectedDifference(
        "(broker-after-)?content-snapshot",
        "A broker computes a last sequence even from a base sequence below -1, which no producer sends.",
        lambda _, text: _changed_fields(text) == {"last_sequence"} and "last_sequence -1 " in text,
    ),
    ExpectedDifference(
        "(broker-after-)?((content|file)-snapshot|content-txnindex|epochs)|read-recovered",
        "Where offsets go back, a broker drops open transactions with the same first offset, and producer "
        "state and epochs above an end offset that goes back, too.",
        _goes_back,
    ),
    ExpectedDifference(
        "(content|file)-(index|timeindex|txnindex)|epochs|(content|file)-snapshot",
        "For a .log.swap without its .index.swap, a broker creates an index of zeros and later takes it for "
        "the index of the segment. kafkalog takes the index for lost and recovers the segment.",
        lambda comparison, _: _has_log_swap_without_index(comparison.log.files),
    ),
    ExpectedDifference(
        "start|end|(content|file)-log",
        "If that .log.swap is damaged, too, a broker takes it to end with the last batch header it can read, "
        "keeps segments from that offset on, and does not recover the .log.swap below the recovery point.",
        lambda comparison, _: (
            _has_log_swap_without_index(comparison.log.files)
            and any(problem.path.endswith(".log.swap") for problem in comparison.problems)
        ),
    ),
    ExpectedDifference(
        "torn-(index|timeindex|txnindex)",
        "A broker that closes a log trims torn entries even of segments that it has not recovered. kafkalog "
        "does not change those. Lookups ignore torn entries.",
        lambda *_: True,
    ),
    ExpectedDifference(
        "load-(end|read|segments)",
        "After a clean shutdown, a broker trusts the offset index and the header of the last batch, recovers "
        "segments without an index, and reads no further than the first damage in a segment. kafkalog checks "
        "index entries, changes nothing and reads the batches after damage, which verify reports.",
        lambda comparison, _: any(problem.kind not in _NOT_LOADED for problem in comparison.problems),
    ),
    ExpectedDifference(
        "load-start",
        "After a clean shutdown, a broker empties a log that ends before its start according to the header "
        "of the last batch. kafkalog checks its magic and the order of offsets.",
        lambda comparison, _: (
            comparison.loaded is not None
            and comparison.loaded.start_offset == comparison.loaded.end_offset
            and any(problem.kind in ("order", "torn") for problem in comparison.problems)
        ),
    ),
    ExpectedDifference(
        "start|end|epochs|(content|file)-.*",
        "A broker splits a segment with an offset that is 2^31 or more above its base offset, because old "
        "brokers wrote such segments in compaction. A bit flip in an offset is likelier: kafkalog ends the "
        "log there.",
        lambda comparison, _: _overflows_segment(comparison.log.files),
    ),
    ExpectedDifference(
        "read-recovered|load-read",
        "kafkalog skips a control batch by its header. A consumer reads its first record, and fails if the "
        "count of records or the compression is wrong.",
        lambda comparison, _: _has_invalid_control_batch(comparison),
    ),
    ExpectedDifference(
        "read-recovered",
        "To find an offset, a broker decompresses the v0 and v1 batches from the index entry on "
        "(FileRecords.searchForOffsetFromPosition asks for their base offsets), and fails at a damaged one "
        "below the log start offset. kafkalog reads their headers.",
        _seeks_through_damaged_wrapper,
    ),
    ExpectedDifference(
        "read-recovered",
        "A broker also fails at other damage there if no index entry leads past it. kafkalog needs no record "
        "below the log start offset.",
        lambda comparison, text: (
            "only theirs  org" in text
            and any(
                problem.kind == "size" and (problem.offset or 0) < comparison.start_offset
                for problem in comparison.problems
            )
        ),
    ),
    ExpectedDifference(
        "end|epochs|(content|file)-.*",
        "A broker cuts off what follows a control batch with a valid checksum whose record it cannot read. "
        "kafkalog keeps it.",
        lambda comparison, _: (
            comparison.loaded is not None
            and _cuts_control_batch(comparison, comparison.loaded.end_offset, comparison.start_offset)
        ),
    ),
    ExpectedDifference(
        "broker-after-((content|file)-.*|epochs)",
        "It does the same to a log that kafkalog has recovered.",
        lambda comparison, _: _cuts_control_batch(
            comparison, comparison.end_offset_then, comparison.start_offset_from_start
        ),
    ),
    ExpectedDifference(
        "broker-after-rejects",
        "A broker rejects the log before recovery for the same reason: the records of a batch with a valid "
        "checksum. Recovery does not cut off such a batch.",
        lambda comparison, text: (
            comparison.rejection is not None
            and _without_paths(comparison.rejection) == _without_paths(text)
            and any(problem.kind == "records" for problem in comparison.problems)
        ),
    ),
    ExpectedDifference(
        "broker-after-rejects",
        "A broker rejects a log for producer state or control records in a batch with a valid checksum. "
        "Recovery does not cut off such a batch.",
        lambda comparison, _: _has_unread_records(comparison),
    ),
    ExpectedDifference(
        "broker-after-rejects",
        "A broker rejects a log with a message set of format v1 whose offset is below the offset of its last "
        "message. Recovery checks checksums, which do not cover that offset, and does not cut it off.",
        lambda comparison, text: (
            "Found invalid wrapper offset" in text
            and any(problem.kind in ("records", "order") for problem in comparison.problems)
        ),
    ),
    ExpectedDifference(
        "broker-after-rejects",
        "A broker rejects a log with a batch without a transaction where one of its producer is open, as a "
        "batch of another log can be. Recovery does not cut it off.",
        lambda comparison, text: (
            "InvalidTxnStateException: Expected transactional write" in text
            and "batch_of_other_log" in comparison.log.kinds
        ),
    ),
    ExpectedDifference(
        "broker-after-rejects",
        "A broker rejects a log whose transactions end at offsets that go back. Recovery does not cut off "
        "the batches.",
        lambda comparison, text: (
            any(part in text for part in ("appended transactions must increase", "to complete transaction"))
            and offsets_go_back(comparison.log.files)
        ),
    ),
    ExpectedDifference(
        "epochs",
        "A broker removes leader epochs above the new end only after it has compared the batches with them. "
        "It gets the same result as kafkalog when it recovers the log a second time.",
        lambda comparison, _: _has_epochs_from(comparison.log.files, comparison.end_offset),
    ),
    ExpectedDifference(
        "epochs",
        "A broker recovers segments whose indexes are lost before all others, and takes the leader epochs of "
        "their batches first. Then it ignores these epochs in earlier batches. kafkalog reads the segments "
        "in the order of their offsets.",
        lambda comparison, _: "change_index" in comparison.log.kinds or _lacks_index(comparison.log.files),
    ),
    ExpectedDifference(
        "broker-after-epochs",
        "If a log starts where it ends, a broker removes the last leader epoch with one load, and reads it "
        "again with the next.",
        lambda comparison, _: comparison.start_offset_from_start == comparison.end_offset_from_start,
    ),
]
