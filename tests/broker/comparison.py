"""One damaged log, recovered by Kafka's own classes and by kafkalog, and every difference in the result.

Kinds of differences:
- read-MODE-...: reading the damaged log fails or returns offsets out of order.
- load-...: after a clean shutdown, opening the log as it is, with what Kafka loads of it.
- verify-silent: verify reports nothing of damage that fails a reader, or that recovery cuts off.
- start, end, epochs, file-KIND, content-KIND, torn-KIND, read-recovered: after the recovery.
- verify-after-KIND: verify finds a problem after a recovery from the start.
- again-...: a second recovery changes something.
- broker-after-...: Kafka recovers the log that kafkalog has recovered from the start, and changes something.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import shutil
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import native_log
from native_log import LogDir
from native_log.checkpoints.leader_epochs import parse_leader_epochs
from native_log.errors import CorruptIndexError, KafkaLogError
from native_log.log.producers.producer_state import parse_snapshot
from native_log.log.verification import verify_log

from .expected_differences import reason_for
from .kafka_loader import LoadError
from .log_dir_files import CLEAN_SHUTDOWN, DIRECTORY, ENTRY_BYTES, EPOCHS, RECOVERY_POINT, TOPIC, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from native_log import PartitionRecovery
    from native_log.log.problems import Problem

    from .damaged_log import Case, DamagedLog
    from .kafka_loader import KafkaLoader, LoadedLog

MODES = ("failFast", "dropMalformed", "permissive")
COLUMNS = ["offset", "_corrupt_record"]


class Difference(NamedTuple):
    kind: str
    text: str


@dataclass
class Comparison:
    """What differs for one damaged log.

    Attributes:
        problems: what verify finds before recovery.
        loaded: what Kafka loads; None if it rejects the log.
        rejection: why Kafka rejects it.
        is_cut: whether kafkalog's recovery cuts off data.
        start_offset, end_offset: log start and end offset after kafkalog's recovery.
        start_offset_from_start, end_offset_from_start: after kafkalog's recovery from the start.
        end_offset_then: after Kafka has loaded that; None if it rejects it.
    """

    log: DamagedLog
    differences: list[Difference] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    loaded: LoadedLog | None = None
    rejection: str | None = None
    is_cut: bool = False
    start_offset: int = 0
    end_offset: int = 0
    start_offset_from_start: int = 0
    end_offset_from_start: int = 0
    end_offset_then: int | None = None

    @property
    def is_clean_shutdown(self) -> bool:
        return CLEAN_SHUTDOWN in self.log.files.checkpoints

    def add(self, kind: str, text: object) -> None:
        self.differences.append(Difference(kind, str(text)))

    def kinds(self) -> set[str]:
        return {difference.kind for difference in self.differences}

    def unexpected_kinds(self) -> set[str]:
        return {difference.kind for difference in self.differences if reason_for(difference, self) is None}

    def __str__(self) -> str:
        lines = [str(self.log)]
        if self.rejection is not None:
            lines.append(f"rejected by Kafka: {self.rejection}")
        for difference in self.differences:
            mark = "!" if reason_for(difference, self) is None else "(expected)"
            lines.append(f"{mark} {difference.kind}: {difference.text[:400]}")
        return "\n  ".join(lines)


def compare(case: Case, loader: KafkaLoader, scratch: Path) -> Comparison:
    """Read and verify a damaged log, recover one copy with kafkalog and one with Kafka, and compare them."""
    log = case.damaged_log()
    comparison = Comparison(log)
    theirs, ours, again = scratch / "theirs", scratch / "ours", scratch / "again"
    for path in (theirs, ours, again):
        shutil.rmtree(path, ignore_errors=True)
    log.files.write(theirs)
    log.files.write(ours)
    config = {"index.interval.bytes": log.index_interval_bytes}

    try:
        comparison.loaded = loader.load(theirs, log.index_interval_bytes)
    except LoadError as error:
        comparison.rejection = str(error)
    read_error = _read_in_all_modes(ours, comparison)
    problems = _verify(ours, comparison, "verify-crash")
    comparison.problems = problems or []
    if comparison.is_clean_shutdown and comparison.loaded is not None:
        _compare_loaded(ours, comparison.loaded, comparison)

    recovered = _recover(ours, config)
    if recovered.recovery is None:
        comparison.add("recover-error", recovered.error)
        return comparison
    comparison.is_cut = recovered.recovery.loses_data
    comparison.start_offset = recovered.recovery.log_start_offset
    comparison.end_offset = recovered.recovery.log_end_offset
    if problems == [] and (read_error or comparison.is_cut):
        comparison.add("verify-silent", read_error or f"cut: {recovered.recovery.reason}")
    if comparison.loaded is not None and not comparison.is_clean_shutdown:
        _compare_recovered(ours, theirs, comparison.loaded, recovered.recovery, comparison)
    _recover_again(ours, again, loader, config, comparison)
    return comparison


def shrink(comparison: Comparison, loader: KafkaLoader, scratch: Path) -> Comparison:
    """Leave out each damage without which the same kinds of differences remain."""
    unexpected = comparison.unexpected_kinds()
    for number in range(len(comparison.log.damages)):
        case = comparison.log.case
        smaller = compare(replace(case, without=case.without | {number}), loader, scratch)
        if unexpected <= smaller.unexpected_kinds():
            comparison = smaller
    return comparison


@contextlib.contextmanager
def fast_and_quiet() -> Iterator[None]:
    """Do not flush to disk, and do not log."""
    logging.disable(logging.CRITICAL)
    fsync, os.fsync = os.fsync, lambda _: None
    try:
        yield
    finally:
        os.fsync = fsync
        logging.disable(logging.NOTSET)


def partition_files(log_dir: Path, partition: str = DIRECTORY) -> dict[str, bytes]:
    """Return the content of the partition's files by name.

    Without leader epochs, files being deleted, and empty .txnindex and .timeindex files, which mean the same
    as none.
    """
    return {
        file.name: file.read_bytes()
        for file in (log_dir / partition).iterdir()
        if file.suffix not in (".deleted", ".tmp") and file.name != EPOCHS
        if file.suffix not in (".txnindex", ".timeindex") or file.stat().st_size
    }


def epochs(log_dir: Path, partition: str = DIRECTORY) -> list[tuple[int, int]]:
    """Return (epoch, start offset) of the leader epochs; none if the file is missing or cannot be parsed."""
    try:
        text = (log_dir / partition / EPOCHS).read_text()
        return [(entry.epoch, entry.start_offset) for entry in parse_leader_epochs(text)] if text else []
    except (FileNotFoundError, ValueError):
        return []


# Before recovery


def _open(log_dir: Path) -> Any:
    return LogDir(log_dir).partition(TOPIC, 0)


def _record_offsets(batch: pa.RecordBatch) -> list[int]:
    """Leave out the rows of damaged ranges, which have offsets, too."""
    is_record = batch.column("_corrupt_record").is_null()
    offsets: list[int] = batch.column("offset").filter(is_record).to_pylist()
    return offsets


def _read_in_all_modes(log_dir: Path, comparison: Comparison) -> str | None:
    """Return the error in mode failFast."""
    fail_fast_error = None
    for mode in MODES:
        offsets: list[int] = []
        try:
            for batch in _open(log_dir).read(columns=COLUMNS, mode=mode):
                offsets += _record_offsets(batch)
        except KafkaLogError as error:
            if mode == "failFast":
                fail_fast_error = str(error)
            else:
                comparison.add(f"read-{mode}-fails", error)
        except Exception as error:
            comparison.add(f"read-{mode}-crash", repr(error))
        if any(after <= before for before, after in itertools.pairwise(offsets)):
            comparison.add(f"read-{mode}-order", offsets)
    return fail_fast_error


def _verify(log_dir: Path, comparison: Comparison, crash_kind: str) -> list[Problem] | None:
    try:
        return list(verify_log(_open(log_dir)))
    except Exception as error:
        comparison.add(crash_kind, repr(error))
        return None


def _compare_loaded(log_dir: Path, loaded: LoadedLog, comparison: Comparison) -> None:
    log = _open(log_dir)
    _compare_values("load-start", log.local_log_start_offset, loaded.start_offset, comparison)
    _compare_values("load-end", log.log_end_offset, loaded.end_offset, comparison)
    # A broker starts a new segment in these cases. Reading changes nothing.
    starts_new_segment = not log.segments or log.state.tail.next_offset < log.local_log_start_offset
    if not starts_new_segment:
        base_offsets = [segment.base_offset for segment in log.segments]
        _compare_values("load-segments", base_offsets, loaded.base_offsets, comparison)
    _compare_read("load-read", log, loaded, comparison)


def _compare_values(kind: str, ours: object, theirs: object, comparison: Comparison) -> None:
    if ours != theirs:
        comparison.add(kind, f"ours {ours}, theirs {theirs}")


def _compare_read(kind: str, log: Any, loaded: LoadedLog, comparison: Comparison) -> None:
    """Compare the records. If reading fails, theirs after that do not matter."""
    offsets: list[int] = []
    error = None
    try:
        for batch in log.read(columns=COLUMNS):
            offsets += _record_offsets(batch)
    except KafkaLogError as read_error:
        error = str(read_error)
    if error:
        is_same = loaded.offsets[: len(offsets)] == offsets
    else:
        is_same = loaded.offsets == offsets and loaded.consumer_error is None
    if not is_same:
        comparison.add(
            kind,
            f"only ours {_ranges({*offsets} - {*loaded.offsets})} {error or 'to the end'}; "
            f"only theirs {_ranges({*loaded.offsets} - {*offsets})} {loaded.consumer_error or 'to the end'}",
        )


def _ranges(offsets: set[int]) -> str:
    ranges: list[list[int]] = []
    for offset in sorted(offsets):
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return " ".join(f"{first}-{last}" for first, last in ranges[:12]) + (" ..." if len(ranges) > 12 else "")


# After recovery


def _recover(log_dir: Path, config: dict[str, int], *, from_start: bool = False) -> PartitionRecovery:
    results: list[PartitionRecovery] = []
    native_log.recover(log_dir, config=config, from_start=from_start, on_partition=results.append)
    (result,) = results
    return result


def _compare_recovered(
    ours: Path, theirs: Path, loaded: LoadedLog, recovery: Any, comparison: Comparison
) -> None:
    _compare_values("start", recovery.log_start_offset, loaded.start_offset, comparison)
    _compare_values("end", recovery.log_end_offset, loaded.end_offset, comparison)
    _compare_files(partition_files(ours), partition_files(theirs), comparison, "ours", "theirs")
    _compare_values("epochs", epochs(ours), loaded.epochs, comparison)
    if not comparison.differences:
        _compare_read("read-recovered", _open(ours), loaded, comparison)


def _recover_again(
    ours: Path, again: Path, loader: KafkaLoader, config: dict[str, int], comparison: Comparison
) -> None:
    """Recover from the start, then check that verify reports nothing and that a recovery changes nothing.

    Both kafkalog and Kafka recover the result again.
    """
    recovered = _recover(ours, config, from_start=True)
    if recovered.recovery is None:
        comparison.add("from-start-error", recovered.error)
        return
    comparison.start_offset_from_start = recovered.recovery.log_start_offset
    comparison.end_offset_from_start = recovered.recovery.log_end_offset
    for problem in _verify(ours, comparison, "verify-after-crash") or ():
        comparison.add(f"verify-after-{problem.kind}", problem)
    files_before, epochs_before = partition_files(ours), epochs(ours)
    shutil.copytree(ours, again)
    native_log.recover(ours, config=config, from_start=True)
    _compare_files(files_before, partition_files(ours), comparison, "once", "twice", "again-")
    if epochs(ours) != epochs_before:
        comparison.add("again-epochs", f"once {epochs_before}, twice {epochs(ours)}")
    for name in (CLEAN_SHUTDOWN, RECOVERY_POINT):
        (again / name).unlink(missing_ok=True)
    try:
        loaded = loader.load(again, config["index.interval.bytes"])
    except LoadError as error:
        comparison.add("broker-after-rejects", error)
        return
    comparison.end_offset_then = loaded.end_offset
    _compare_files(
        files_before, partition_files(again), comparison, "recovered", "then by a broker", "broker-after-"
    )
    if loaded.epochs != epochs_before:
        comparison.add("broker-after-epochs", f"recovered {epochs_before}, then by a broker {loaded.epochs}")


def _compare_files(
    ours: dict[str, bytes],
    theirs: dict[str, bytes],
    comparison: Comparison,
    our_name: str,
    their_name: str,
    prefix: str = "",
) -> None:
    for name in sorted({*ours, *theirs}):
        kind = kind_of(name)
        ours_data, theirs_data = ours.get(name), theirs.get(name)
        if ours_data is None or theirs_data is None:
            owner = their_name if ours_data is None else our_name
            size = len(ours_data or theirs_data or b"")
            comparison.add(f"{prefix}file-{kind}", f"{name} ({size} bytes) is only in {owner}")
        elif kind == "snapshot":
            if changed := _snapshot_changes(ours_data, theirs_data):
                comparison.add(
                    f"{prefix}content-{kind}", f"{name}: {our_name}, {their_name}: {', '.join(changed)}"
                )
        elif ours_data != theirs_data:
            sizes = f"{our_name} {len(ours_data)} bytes, {their_name} {len(theirs_data)}"
            if kind in ENTRY_BYTES and _whole_entries(ours_data, ENTRY_BYTES[kind]) == theirs_data:
                comparison.add(f"{prefix}torn-{kind}", f"{name}: {sizes}")
            else:
                pairs = enumerate(zip(ours_data, theirs_data, strict=False))
                position = next((at for at, (a, b) in pairs if a != b), "the end")
                comparison.add(f"{prefix}content-{kind}", f"{name}: {sizes}, they differ at {position}")


def _whole_entries(data: bytes, entry_bytes: int) -> bytes:
    return data[: len(data) // entry_bytes * entry_bytes]


def _snapshot_changes(ours: bytes, theirs: bytes) -> list[str]:
    """Return the fields of producers that differ, with both values: "7.producer_epoch 0 1"."""
    first, second = _snapshot_fields(ours), _snapshot_fields(theirs)
    return [
        f"{name} {first.get(name)} {second.get(name)}"
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]


def _snapshot_fields(data: bytes) -> dict[str, object]:
    try:
        entries = parse_snapshot(data)
    except CorruptIndexError as error:
        return {"error": str(error)}
    return {
        f"{entry.producer_id}.{name}": value for entry in entries for name, value in asdict(entry).items()
    }
