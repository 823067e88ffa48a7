"""PartitionLog.append and append_batches roll and close as a broker does, and errors have no effect."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT
from native_log.compaction import compact
from native_log.config import LogConfig
from native_log.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    LogDirInUseError,
    LogNeedsRecoveryError,
    RecordTooLargeError,
)
from native_log.log import PartitionLog
from native_log.log.producers.producer_state import parse_snapshot
from native_log.log.recovery.log_recovery import recover_log
from native_log.log.verification import verify_log
from native_log.log.writing import validation
from native_log.logdir import LogDir
from native_log.records import RECORD_SCHEMA
from tests.builders.batches import T0, Rec, batch, marker, v2
from tests.builders.logs import write_log
from tests.contents import offsets
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from native_log.log.problems import Problem

NOW = T0 + 1000
WRITTEN = ("key", "value", "headers", "timestamp")


def records(count: int, size: int = 20, first: int = 0, timestamp: int = T0) -> pa.RecordBatch:
    values = [str(first + i).encode().rjust(size, b".") for i in range(count)]
    keys = [None if i % 3 == 2 else b"k%d" % i for i in range(count)]
    times = pa.array([timestamp] * count, pa.timestamp("ms", "UTC"))
    return pa.record_batch({"timestamp": times, "value": values, "key": keys})


def values(log: PartitionLog) -> list[bytes]:
    return [value for batch in log.read(columns=["value"]) for value in batch.column(0).to_pylist()]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    LogDir.create(path).create_topic("t")
    return path


def open_log(logs: Path, **config: object) -> PartitionLog:
    return LogDir(logs).partition("t", 0, config={k.replace("_", "."): v for k, v in config.items()})


def contents(path: Path) -> dict[str, bytes]:
    """Return the contents of all files of a log directory, without the lock and zeros after index entries."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {
        str(file.relative_to(path)): file.read_bytes().rstrip(b"\0")
        if file.suffix in (".index", ".timeindex")
        else file.read_bytes()
        for file in files
    }


def test_repr_shows_path_offsets_and_segments(logs: Path) -> None:
    with open_log(logs) as log:
        log.append(records(5))
        assert repr(log) == f"PartitionLog('{logs}/t-0', offsets 0 to 5, 1 segments)"


def test_threads_append_in_turn(logs: Path) -> None:
    def append(thread: int) -> list[int]:
        return [log.append(records(7, first=1000 * thread + 7 * i)) for i in range(20)]

    with open_log(logs, segment_bytes=2000) as log, ThreadPoolExecutor(8) as pool:
        firsts = [first for some in pool.map(append, range(8)) for first in some]
    assert sorted(firsts) == list(range(0, 8 * 20 * 7, 7))
    written = values(open_log(logs))
    assert sorted(map(int, (value.strip(b".") for value in written))) == [
        1000 * thread + i for thread in range(8) for i in range(140)
    ]


def test_a_forked_process_appends_nothing_to_its_parents_log(logs: Path) -> None:
    with open_log(logs) as log:
        log.append(records(3))
        child = os.fork()
        if child == 0:
            rejected = False
            try:
                log.append(records(5))
            except LogDirInUseError:
                rejected = True
            finally:
                log.close()
                os._exit(0 if rejected else 1)
        assert os.waitpid(child, 0)[1] == 0
        log.append(records(2, first=3))
    assert len(values(open_log(logs))) == 5
    assert (logs / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("given", ["pandas", "reader", "array interface"])
def test_arrow_compatible_records_are_appended(logs: Path, given: str) -> None:
    some = records(5)
    with open_log(logs) as log:
        if given == "pandas":
            log.append(some.to_pandas())  # type: ignore[arg-type]
        elif given == "reader":
            log.append(pa.RecordBatchReader.from_batches(some.schema, [some[:2], some[2:]]))  # type: ignore[arg-type]
        else:
            log.append(type("Batch", (), {"__arrow_c_array__": some.__arrow_c_array__})())  # type: ignore[arg-type]
        assert values(log) == some["value"].to_pylist()


@pytest.mark.parametrize("given", [[{"value": b"v"}], {"value": [b"v"]}, "v", None])
def test_other_objects_are_rejected(logs: Path, given: Any) -> None:
    with open_log(logs) as log, pytest.raises(TypeError, match="expected a pyarrow RecordBatch or Table"):
        log.append(given)
    assert open_log(logs).log_end_offset == 0


@pytest.mark.parametrize("times", [pa.array([1.5]), pa.array([5], pa.date32()), pa.array(["2025-01-01"])])
def test_timestamps_of_other_types_are_rejected(logs: Path, times: pa.Array) -> None:
    rows = pa.record_batch({"value": [b"v"], "timestamp": times})
    with (
        open_log(logs) as log,
        pytest.raises(ValueError, match="column timestamp: expected timestamps or int64"),
    ):
        log.append(rows)


def test_appended_records_are_read_at_once_and_after_close(logs: Path) -> None:
    log = open_log(logs)
    assert log.append(records(10), now_ms=NOW) == 0
    assert log.append(records(5, first=10), now_ms=NOW) == 10
    expected = [str(i).encode().rjust(20, b".") for i in range(15)]
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (15, 15, 15)
    assert values(log) == expected
    log.close()
    assert values(log) == values(open_log(logs)) == expected
    keys = [k for b in open_log(logs).read(columns=["key"]) for k in b.column(0).to_pylist()]
    assert keys[:4] == [b"k0", b"k1", None, b"k3"]
    assert log.append(records(1, first=15), now_ms=NOW) == 15
    log.close()


@settings(max_examples=examples(12), deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    cuts=st.sets(st.integers(0, 5)),
    segment_bytes=st.sampled_from([400, 1500, 1 << 30]),
    codec=st.sampled_from(["none", "lz4", "zstd"]),
)
def test_any_sequence_of_appends_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    cuts: set[int],
    segment_bytes: int,
    codec: str,
) -> None:
    """Closing and opening between appends changes no row, and rebuilt indexes equal the written ones."""
    path = tmp_path_factory.mktemp("logs") / "t-0"
    path.mkdir()
    config = {"segment.bytes": segment_bytes, "index.interval.bytes": 200}
    log, total = PartitionLog.open(path, config=config), 0
    for i, count in enumerate(counts):
        assert log.append(records(count, first=total), compression=codec, batch_size=300, now_ms=NOW) == total
        total += count
        if i in cuts:
            log.close()
            log = PartitionLog.open(path, config=config)
    log.close()
    again = PartitionLog.open(path)
    assert values(again) == [str(i).encode().rjust(20, b".") for i in range(total)]
    assert all(segment.size_bytes <= segment_bytes for segment in again.segments)
    for offset in range(0, total, 7):
        assert next(again.read(offset, columns=["offset"])).column(0)[0].as_py() == offset
    before = contents(path)
    plan = recover_log(path, recovery_point=0, log_start_offset=0, config=LogConfig.parse(config))
    assert not plan.loses_data
    if not cuts:  # as in a broker, a segment that is opened again restarts its index interval
        assert contents(path) == before


def test_a_table_of_many_chunks_gives_no_small_batches(logs: Path) -> None:
    table = pa.Table.from_batches([records(3, first=3 * i) for i in range(100)])
    with open_log(logs, cleanup_policy="delete") as log:
        assert log.append(table, batch_size=1 << 20, now_ms=NOW) == 0
    (headers,) = log.batches()
    assert headers.num_rows == 1
    assert values(log) == [str(i).encode().rjust(20, b".") for i in range(300)]
    late = pa.Table.from_batches([records(3), records(3, timestamp=NOW + 10**9)])
    with pytest.raises(InvalidTimestampError, match="row 3"):
        log.append(late, now_ms=NOW)
    log.close()


def test_a_log_open_for_appending_is_not_compacted(logs: Path) -> None:
    with open_log(logs) as log:
        log.append(records(3), now_ms=NOW)
        with pytest.raises(LogDirInUseError, match="this very process"):
            compact(logs, "t")
        compact(logs, "t", dry_run=True)
    compact(logs, "t")


def test_rolled_by_size_with_snapshots_and_trimmed_indexes(logs: Path) -> None:
    with open_log(logs, segment_bytes=2000, index_interval_bytes=300) as log:
        for i in range(20):
            log.append(records(10, first=10 * i), now_ms=NOW)
        active = log.segments[-1]
        assert (active.path.parent / str(active.index)).stat().st_size == 10485760
    segments = open_log(logs).segments
    assert len(segments) > 2
    assert all(segment.size_bytes <= 2000 for segment in segments)
    snapshots = {offset for offset, _ in open_log(logs).state.snapshots}
    assert snapshots == {segment.base_offset for segment in segments[1:]} | {200}
    for segment in segments:
        assert segment.load_offset_index().health(segment.size_bytes).status == "ok"
        assert segment.load_time_index().health().status == "ok"


def test_a_later_close_removes_earlier_snapshots(logs: Path) -> None:
    for i in range(3):
        with open_log(logs) as log:
            log.append(records(5, first=5 * i), now_ms=NOW)
    assert [offset for offset, _ in open_log(logs).state.snapshots] == [15]


def test_rolled_by_record_time_not_by_the_clock(logs: Path) -> None:
    with open_log(logs, segment_ms=1000) as log:
        log.append(records(3, timestamp=T0), now_ms=NOW)
        log.append(records(3, timestamp=T0 + 1000), now_ms=NOW + 10**9)
        log.append(records(3, timestamp=T0 + 1001), now_ms=NOW)
        log.append(records(3, timestamp=T0 + 500), now_ms=NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 6]


def test_rolled_when_an_index_is_full(logs: Path) -> None:
    with open_log(logs, segment_index_bytes=40, index_interval_bytes=0) as log:
        log.append(records(90), batch_size=0, now_ms=NOW)
    assert len(log.segments) > 10
    assert values(open_log(logs)) == [str(i).encode().rjust(20, b".") for i in range(90)]


def test_checkpoints_and_the_clean_shutdown_marker(logs: Path) -> None:
    mark = logs / ".kafka_cleanshutdown"
    with open_log(logs) as log:
        log.append(records(7), now_ms=NOW)
        assert not mark.exists()
    assert mark.exists()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert (logs / name).read_text() == "0\n1\nt 0 7\n"
    assert (logs / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    mark.unlink()  # without it, other logs may need recovery, so the marker must not be written
    with open_log(logs) as log:
        log.append(records(7), now_ms=NOW)
    assert not mark.exists()


def test_leader_epochs(logs: Path) -> None:
    with open_log(logs) as log:
        log.append(records(2), now_ms=NOW)
        log.append(records(2), leader_epoch=3, now_ms=NOW)
        log.append(records(2), now_ms=NOW)
    assert [(e.epoch, e.start_offset) for e in log.leader_epochs] == [(0, 0), (3, 2)]
    epochs = [e for b in log.read(columns=["leaderEpoch"]) for e in b.column(0).to_pylist()]
    assert epochs == [0, 0, 3, 3, 3, 3]


def test_log_append_time(logs: Path) -> None:
    with open_log(logs, message_timestamp_type="LogAppendTime") as log:
        log.append(records(3), now_ms=NOW)
        log.append_batches(batch(0), now_ms=NOW + 1)
    table = pa.Table.from_batches(log.read(columns=["timestamp", "timestampType"]))
    assert table.column(1).to_pylist() == [1] * 6
    assert [us // 1000 for us in table.column(0).cast("int64").to_pylist()] == [NOW] * 3 + [NOW + 1] * 3


@pytest.mark.parametrize(
    ("config", "given", "error", "named"),
    [
        ({"cleanup.policy": "compact"}, records(3), InvalidRecordError, "row 2: expected a key"),
        ({}, records(2, timestamp=NOW + 3600001), InvalidTimestampError, "row 0"),
        ({"message.timestamp.before.max.ms": 10}, records(2), InvalidTimestampError, "before.max.ms"),
        ({}, records(1, timestamp=-2), InvalidTimestampError, "found -2"),
        ({"max.message.bytes": 200}, records(1, size=200), RecordTooLargeError, "max.message.bytes"),
        ({"segment.bytes": 200}, records(1, size=200), RecordTooLargeError, "segment.bytes"),
    ],
)
def test_records_that_a_broker_rejects_are_rejected(
    logs: Path, config: dict[str, object], given: pa.RecordBatch, error: type[Exception], named: str
) -> None:
    log = LogDir(logs).partition("t", 0, config=config)
    log.append(pa.record_batch({"value": [b"a"], "key": [b"k"]}), now_ms=NOW)
    before = contents(logs)
    with pytest.raises(error, match=named):
        log.append(given, now_ms=NOW)
    assert (contents(logs), log.log_end_offset) == (before, 1)
    log.close()


def test_batches_keep_their_bytes_except_offset_and_epoch(logs: Path) -> None:
    data = batch(100, codec="lz4") + batch(500, count=2, codec="zstd")
    with open_log(logs) as log:
        log.append(records(4), now_ms=NOW)
        assert log.append_batches(data, leader_epoch=2, now_ms=NOW) == 4
    written = log.segments[0].path.read_bytes()[-len(data) :]
    size = len(batch(100, codec="lz4"))
    for start, stop in ((16, size), (size + 16, len(data))):  # from the magic byte, checksum included
        assert written[start:stop] == data[start:stop]
    assert offsets(log.read(columns=["offset"])) == list(range(9))
    assert [(e.epoch, e.start_offset) for e in log.leader_epochs] == [(0, 0), (2, 4)]


def test_a_wrong_maximum_timestamp_is_corrected(logs: Path) -> None:
    with open_log(logs) as log:
        log.append_batches(batch(0, max_timestamp=T0 + 99), now_ms=NOW)
    (headers,) = log.batches(check_crcs=True)
    assert headers.column("maxTimestamp").to_pylist() == [T0]
    assert headers.column("isValid").to_pylist() == [True]


def test_batches_of_another_codec_or_magic_are_encoded_again(logs: Path) -> None:
    from tests.builders.legacy import message

    with open_log(logs, compression_type="gzip") as log:
        log.append_batches(batch(0, codec="lz4") + batch(9, codec="gzip"), now_ms=NOW)
        log.append_batches(message(1, 3, b"k", b"old"), now_ms=NOW)
    headers = pa.Table.from_batches(log.batches(check_crcs=True))
    assert headers.column("compression").to_pylist() == ["gzip"] * 3
    assert headers.column("baseOffset").to_pylist() == [0, 3, 6]
    assert headers.column("magic").to_pylist() == [2, 2, 2]
    assert values(log)[-1] == b"old"


def test_batches_that_are_encoded_again_keep_their_producer(logs: Path) -> None:
    """Otherwise their transaction would end without them, and a retry would write them twice."""
    of_seven = {"attributes": 16, "producer_id": 7, "producer_epoch": 1, "base_sequence": 4}
    with open_log(logs, compression_type="gzip") as log:
        assert log.append_batches(batch(0, **of_seven), now_ms=NOW) == 0
        assert log.append_batches(batch(0, **of_seven), now_ms=NOW) == 0
        assert log.last_stable_offset == 0
    (header,) = pa.Table.from_batches(log.batches(check_crcs=True)).to_pylist()
    names = ("compression", "producerId", "producerEpoch", "baseSequence", "isTransactional", "isValid")
    assert [header[name] for name in names] == ["gzip", 7, 1, 4, True, True]


@pytest.mark.parametrize(
    ("data", "error", "named"),
    [
        (batch(0)[:-1], CorruptRecordError, "whole batches"),
        (batch(0, crc=5), CorruptRecordError, "checksum"),
        (b"\0" * 40, CorruptRecordError, "whole batches"),
        (marker(0, 7), InvalidRecordError, "control batch"),
        (batch(0, last_offset_delta=7), InvalidRecordError, "without gaps"),
        (batch(0, producer_id=4), InvalidRecordError, "sequence"),
        (batch(0, attributes=16), InvalidRecordError, "producer id"),
        (v2([Rec(), Rec(offset_delta=2)], 0, last_offset_delta=1), InvalidRecordError, "offset deltas"),
        (batch(0, size=5000), RecordTooLargeError, "max.message.bytes"),
    ],
)
def test_batches_that_a_broker_rejects_are_rejected(
    logs: Path, data: bytes, error: type[Exception], named: str
) -> None:
    log = open_log(logs, max_message_bytes=3000)
    log.append(records(1), now_ms=NOW)
    before = contents(logs)
    with pytest.raises(error, match=named):
        log.append_batches(batch(0) + data, now_ms=NOW)
    assert contents(logs) == before
    log.close()


def test_transactions(logs: Path) -> None:
    of_seven = {"attributes": 16, "producer_id": 7, "producer_epoch": 1}
    with open_log(logs) as log:
        log.append_batches(batch(0, base_sequence=0, **of_seven), now_ms=NOW)
        assert log.last_stable_offset == 0
        log.append_batches(marker(0, 7, 0, epoch=1), origin="coordinator", now_ms=NOW)
        log.append_batches(batch(0, base_sequence=3, **of_seven), now_ms=NOW)
        log.append_batches(marker(0, 7, 1, epoch=1), origin="coordinator", now_ms=NOW)
        assert log.last_stable_offset == log.log_end_offset == 8
    assert offsets(log.read(columns=["offset"], isolation_level="read_committed")) == [4, 5, 6]
    (aborted,) = log.segments[0].load_transaction_index().entries
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 0, 3)
    (entry,) = parse_snapshot((logs / "t-0" / f"{8:020d}.snapshot").read_bytes())
    assert (entry.last_sequence, entry.last_offset, entry.coordinator_epoch) == (5, 6, 5)


def test_batches_of_a_replica_keep_their_offsets(logs: Path) -> None:
    data = batch(10, leader_epoch=1) + batch(50, leader_epoch=4, last_offset_delta=9)
    with open_log(logs) as log:
        log.append_batches(data, origin="replication", now_ms=NOW)
        assert log.segments[0].path.read_bytes() == data
        assert log.log_end_offset == 60
        with pytest.raises(InvalidRecordError, match="at or above the log end offset 60"):
            log.append_batches(batch(59), origin="replication", now_ms=NOW)
    assert [(e.epoch, e.start_offset) for e in log.leader_epochs] == [(1, 10), (4, 50)]


@pytest.mark.parametrize("tail", [batch(3)[:-5], b"\0" * 100, batch(3, crc=1), b"garbage, not a batch"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_with_a_torn_end_is_rejected(logs: Path, tail: bytes, clean: bool) -> None:
    path = write_log(logs / "t-0", {0: [batch(0), tail]})
    if not clean:
        (logs / ".kafka_cleanshutdown").unlink()
    before = contents(logs)
    with pytest.raises(LogNeedsRecoveryError, match="kafkalog recover"):
        open_log(logs).append(records(1), now_ms=NOW)
    assert contents(logs) == before
    recover_log(path, recovery_point=0, log_start_offset=0, config=LogConfig())
    with open_log(logs) as log:
        assert log.append(records(1), now_ms=NOW) == 3


def test_damage_within_a_log_after_a_crash_is_rejected(logs: Path) -> None:
    path = write_log(logs / "t-0", {0: [batch(0), batch(3, crc=1)], 6: [batch(6)], 9: [batch(9)]})
    (logs / ".kafka_cleanshutdown").unlink()
    before = {file: file.read_bytes() for file in path.glob("*.log")}
    with pytest.raises(LogNeedsRecoveryError, match="kafkalog recover") as rejected:
        open_log(logs).append(records(1), now_ms=NOW)
    assert (rejected.value.position, rejected.value.offset) == (len(batch(0)), 3)
    assert {file: file.read_bytes() for file in path.glob("*.log")} == before


def test_indexes_are_recovered_after_a_crash(logs: Path) -> None:
    write_log(logs / "t-0", {0: [batch(3 * i, size=3000) for i in range(9)]})
    (logs / ".kafka_cleanshutdown").unlink()
    (logs / "t-0" / f"{0:020d}.index").write_bytes(b"\0" * 800)
    with open_log(logs) as log:
        log.append(records(1), now_ms=NOW)
    assert log.segments[0].load_offset_index().health(log.size_bytes).status == "ok"
    assert len(log.segments[0].load_offset_index()) == 8


class Fault:
    """Make the n-th call of a function of `os` fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
        self.calls, self.number, self.function = 0, number, getattr(os, name)
        monkeypatch.setattr(os, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls == self.number:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("name", ["pwrite", "open", "fsync", "ftruncate", "replace"])
def test_a_full_disk_at_any_step_leaves_the_log_unchanged(
    logs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    config: dict[str, object] = {"segment_bytes": 1500, "index_interval_bytes": 200, "flush_messages": 1}
    with open_log(logs, **config) as log:
        log.append(records(20), now_ms=NOW)
    number = failures = 0
    log = open_log(logs, **config)
    log.append(records(20, first=20), now_ms=NOW)
    expected = values(log)
    while True:
        number += 1
        before = {k: v for k, v in contents(logs / "t-0").items() if not k.endswith(".tmp")}
        with monkeypatch.context() as patch:
            fault = Fault(patch, name, number)
            try:
                log.append(records(60, first=40), leader_epoch=number, batch_size=300, now_ms=NOW)
            except OSError:
                failures += 1
            if fault.calls < number:
                break
        assert values(log) == expected
        after = contents(logs / "t-0")
        assert after.get(LEADER_EPOCH_CHECKPOINT) == before.get(LEADER_EPOCH_CHECKPOINT)
        if name != "ftruncate":  # if truncation fails, bytes may remain after the end
            assert {k for k in after if k.endswith(".log")} == {k for k in before if k.endswith(".log")}
            assert {k: after[k] for k in before if k.endswith(".log")} == {
                k: v for k, v in before.items() if k.endswith(".log")
            }
        log.close()
        log = open_log(logs, **config)
        assert values(log) == expected
        log.append(records(0), now_ms=NOW)
    assert failures
    assert len(values(log)) == len(expected) + 60
    log.close()


@contextlib.contextmanager
def files_no_longer_than(size_bytes: int) -> Iterator[None]:
    """Let writes beyond this size be partial and then fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    on_signal = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, on_signal)


@pytest.mark.parametrize("room", [0, 1, 100, 400, 1000, 1999])
def test_partial_writes_leave_the_log_unchanged(logs: Path, room: int) -> None:
    config: dict[str, object] = {"segment_index_bytes": 400, "index_interval_bytes": 0}
    with open_log(logs, **config) as log:
        log.append(records(30), batch_size=200, now_ms=NOW)
        before, size = contents(logs), log.size_bytes
        with files_no_longer_than(size + room), pytest.raises(OSError, match="too large"):
            log.append(records(30, first=30, size=100), batch_size=200, now_ms=NOW)
        assert (contents(logs), log.log_end_offset) == (before, 30)
        log.append(records(30, first=30), now_ms=NOW)
    assert values(open_log(logs)) == [str(i).encode().rjust(20, b".") for i in range(60)]


def test_a_read_only_directory(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rejected(*_: Any, **__: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system", str(logs))

    log = open_log(logs)
    before = contents(logs)
    monkeypatch.setattr(os, "open", rejected)
    with pytest.raises(OSError, match="Read-only"):
        log.append(records(1), now_ms=NOW)
    monkeypatch.undo()
    assert contents(logs) == before
    log.append(records(1), now_ms=NOW)
    log.close()


def test_a_partition_has_one_writer_and_none_beside_a_broker(logs: Path) -> None:
    log = open_log(logs)
    log.append(records(1), now_ms=NOW)
    with pytest.raises(LogDirInUseError, match="this very process"):
        open_log(logs).append(records(1), now_ms=NOW)
    assert values(open_log(logs)) == values(log)  # reading is allowed and does not release the lock
    script = f"""
        import pyarrow as pa
        from native_log import LogDir
        from native_log.errors import LogDirInUseError
        log = LogDir({str(logs)!r}).partition("t", 0)
        try:
            log.append(pa.record_batch({{"value": [b"x"]}}))
        except LogDirInUseError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert f"process {os.getpid()}" in done.stdout
    log.close()


def test_flush_by_messages_and_by_time(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    log = open_log(logs, flush_messages=10, flush_ms=500)
    log.append(records(1), now_ms=NOW)
    fsync = os.fsync

    def counting(descriptor: int) -> None:
        flushed.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counting)
    log.append(records(8), now_ms=NOW + 400)
    assert not flushed
    log.append(records(1), now_ms=NOW + 400)
    assert len(flushed) == 3
    log.append(records(1), now_ms=NOW + 899)
    assert len(flushed) == 3
    log.append(records(1), now_ms=NOW + 900)
    assert len(flushed) == 6
    log.close()


def test_preallocated_segments_are_trimmed(logs: Path) -> None:
    log = open_log(logs, preallocate="true", segment_bytes=4000)
    log.append(records(10), now_ms=NOW)
    assert log.segments[-1].path.stat().st_size == 4000
    log.append(records(200, first=10), batch_size=1000, now_ms=NOW)
    assert len(log.segments) == 2
    assert log.segments[-1].path.stat().st_size == 4000
    assert len(values(log)) == 210
    log.close()
    assert all(segment.path.stat().st_size == segment.size_bytes for segment in log.segments)


@pytest.mark.parametrize(
    ("config", "size"), [({"max.message.bytes": 3 << 20}, 4 << 20), ({"segment.bytes": 3 << 20}, 4 << 20)]
)
def test_a_record_that_is_too_large_is_reported_with_its_row(
    logs: Path, config: dict[str, int], size: int
) -> None:
    """Rows are numbered across chunks and slices."""
    sizes = [[1 << 20] * 9, [1 << 20, size], [1]]
    table = pa.Table.from_batches([pa.record_batch({"value": [b"v" * n for n in part]}) for part in sizes])
    if "segment.bytes" in config:
        config = config | {"max.message.bytes": 5 << 20}
    for given_ in (table, table.combine_chunks().to_batches()[0]):
        with LogDir(logs).partition("t", 0, config=config) as log:
            message = rf"row 10: .*{next(iter(config))}"
            with pytest.raises(RecordTooLargeError, match=message) as raised:
                log.append(given_)
            assert raised.value.path == str(logs / "t-0")
            assert log.log_end_offset == 0


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ("keys", "found 'keys'; did you mean key"),
        ("Value", "found 'Value'; did you mean value"),
        ("time_stamp", "did you mean timestamp"),
        ("customer", "expected columns of key, value, .*, found 'customer'; leave it out"),
    ],
)
def test_unknown_columns_are_rejected(logs: Path, column: str, says: str) -> None:
    rows = records(3).append_column(column, pa.array(["x"] * 3))
    with LogDir(logs).partition("t", 0) as log:
        with pytest.raises(ValueError, match=says):
            log.append(rows)
        assert log.log_end_offset == 0


@pytest.mark.parametrize("column", sorted({*RECORD_SCHEMA.names} - {"topic", "partition", *WRITTEN}))
def test_a_column_that_a_log_sets_itself_is_a_warning(
    logs: Path, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    validation._warn_of_unwritten.cache_clear()
    with LogDir(logs).partition("t", 0) as log:
        log.append(records(3))
        for _ in range(2):
            log.append(log.read(0, 3, columns=["value", column]).read_all())
        assert values(log) == values(log)[:3] * 3
    assert caplog.text.count(f"the columns {column} are not written") == 1
    assert "records.select(['value'])" in caplog.text


def test_all_columns_that_a_log_sets_itself_are_named(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    validation._warn_of_unwritten.cache_clear()
    with LogDir(logs).partition("t", 0) as log:
        log.append(records(3))
        log.append(log.read().read_all())
        assert values(log) == values(log)[:3] * 2
    assert "the columns offset, timestampType, leaderEpoch, " in caplog.text


def test_records_that_were_read_can_be_appended(logs: Path) -> None:
    with LogDir(logs).partition("t", 0) as log:
        log.append(records(3))
        log.append(log.read(columns=["topic", "partition", *WRITTEN]).read_all())
        # The column that pyarrow adds for a DataFrame's index.
        log.append(records(3).append_column("__index_level_0__", pa.array([3, 5, 7])))
        assert values(log) == values(log)[:3] * 3


@pytest.mark.parametrize("name", ["topic", "partition"])
def test_records_of_another_log_are_rejected(logs: Path, name: str) -> None:
    def named(*names: Any, as_dictionary: bool = False) -> pa.Table:
        column = pa.array(names)
        column = column.dictionary_encode() if as_dictionary else column
        return pa.table(records(3)).append_column(name, column)

    mine, other, wrong = {"topic": ("t", "u", "found 'u'"), "partition": (0, 1, "found 1")}[name]
    with LogDir(logs).partition("t", 0) as log:
        for as_dictionary in (False, True):
            with pytest.raises(InvalidRecordError, match=f"row 2: expected {name} {mine!r}.*{wrong}"):
                log.append(named(mine, None, other, as_dictionary=as_dictionary))
            log.append(named(mine, None, mine, as_dictionary=as_dictionary))
        assert log.log_end_offset == 6


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_log_is_valid_before_each_change_of_its_files(
    logs: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    changes: list[str] = []
    found: list[Problem] = []

    def verify_before(name: str) -> Callable[..., Any]:
        change = getattr(os, name)

        def verify_and_change(*arguments: Any, **options: Any) -> Any:
            changes.append(name)
            found.extend(verify_log(open_log(logs)))
            return change(*arguments, **options)

        return verify_and_change

    with monkeypatch.context() as patch, open_log(logs, segment_bytes=500, index_interval_bytes=100) as log:
        for name in ("pwrite", "ftruncate", "replace", "unlink"):
            patch.setattr(os, name, verify_before(name))
        for epoch in range(3):
            for i in range(5):
                first = 25 * epoch + 5 * i
                log.append(
                    records(5, first=first), compression=compression, leader_epoch=epoch, now_ms=NOW + first
                )
    assert not found
    assert len(changes) > 50
    assert len(log.segments) > 3
    assert [entry.epoch for entry in log.leader_epochs] == [0, 1, 2]
