"""Idempotent producers: duplicates are written once, and missing batches are noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log import LogDir, delete_records
from native_log.errors import InvalidProducerEpochError, InvalidRecordError, OutOfOrderSequenceError
from native_log.log import PartitionLog
from native_log.log.producers.producer_state import ProducerStateEntry, snapshot_bytes
from native_log.log.writing.sequences import MAX_SEQUENCE, check_next
from tests.builders.batches import T0, TRANSACTIONAL, batch, marker
from tests.contents import offsets
from tests.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

NOW = T0 + 1000


def send(sequence: int, count: int = 3, producer: int = 7, epoch: int = 1, **more: Any) -> bytes:
    return batch(0, count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **more)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    (tmp_path / "t-0").mkdir()
    return PartitionLog.open(tmp_path / "t-0")


def test_duplicates_of_the_last_five_batches_are_recognized(log: PartitionLog) -> None:
    with log:
        for i in range(6):
            assert log.append_batches(send(3 * i), now_ms=NOW) == 3 * i
        for i in range(1, 6):
            assert log.append_batches(send(3 * i), now_ms=NOW) == 3 * i
        with pytest.raises(
            OutOfOrderSequenceError, match="expected sequence 18 of producer 7, epoch 1, found 0"
        ):
            log.append_batches(send(0), now_ms=NOW)
        assert log.log_end_offset == 18
    # After a restart only the last batch is known, because a snapshot has no others.
    with log:
        assert log.append_batches(send(15), now_ms=NOW) == 15
        with pytest.raises(OutOfOrderSequenceError):
            log.append_batches(send(12), now_ms=NOW)
        assert log.append_batches(send(18), now_ms=NOW) == 18
    assert offsets(log.read(columns=["offset"])) == list(range(21))


def test_only_new_batches_of_several_are_written(log: PartitionLog) -> None:
    other = send(0, 2, producer=8)
    with log:
        log.append_batches(send(0) + send(3), now_ms=NOW)
        assert log.append_batches(send(3) + other + send(6), now_ms=NOW) == 3
        assert log.log_end_offset == 11
    columns = pa.Table.from_batches(log.read(columns=["offset", "producerId", "sequence"])).to_pydict()
    assert columns["producerId"] == [7] * 6 + [8] * 2 + [7] * 3
    assert columns["sequence"] == [0, 1, 2, 3, 4, 5, 0, 1, 6, 7, 8]


@pytest.mark.parametrize(
    ("again", "error", "named"),
    [
        (send(6), OutOfOrderSequenceError, "expected sequence 3 .* found 6"),
        (send(0, 2), OutOfOrderSequenceError, "found 0"),
        (send(3, epoch=0), InvalidProducerEpochError, "epoch 1 or above, found 0"),
        (send(3, epoch=2), OutOfOrderSequenceError, "expected sequence 0 .* epoch 2"),
    ],
)
def test_batches_out_of_sequence_are_rejected(
    log: PartitionLog, again: bytes, error: type[Exception], named: str
) -> None:
    with log:
        log.append_batches(send(0), now_ms=NOW)
        with pytest.raises(error, match=named):
            log.append_batches(again, now_ms=NOW)
        log.append_batches(send(0, epoch=2), now_ms=NOW)
        assert log.log_end_offset == 6


def test_sequences_of_records_are_checked_too(log: PartitionLog) -> None:
    records = pa.record_batch({"value": [b"a", b"b"]})
    how: dict[str, Any] = {"producer_id": 3, "producer_epoch": 0, "now_ms": NOW}
    with log:
        log.append(records, base_sequence=40, **how)  # an unknown producer may begin with any sequence
        log.append(records, base_sequence=42, **how)
        with pytest.raises(OutOfOrderSequenceError, match="expected sequence 44"):
            log.append(records, base_sequence=42, **how)
        with pytest.raises(InvalidRecordError, match="a sequence"):
            log.append(records, **how)
        assert log.log_end_offset == 4


def test_a_marker_of_a_higher_epoch_restarts_the_sequence(log: PartitionLog) -> None:
    with log:
        log.append_batches(send(0, attributes=16), now_ms=NOW)
        with pytest.raises(InvalidRecordError, match="has a transaction open"):
            log.append_batches(send(3), now_ms=NOW)
        log.append_batches(marker(0, 7, 1, epoch=2), origin="coordinator", now_ms=NOW)
        with pytest.raises(InvalidProducerEpochError):
            log.append_batches(send(3, attributes=16), now_ms=NOW)
        log.append_batches(send(0, epoch=2, attributes=16), now_ms=NOW)


def test_sequences_wrap_to_zero_after_the_maximum(log: PartitionLog) -> None:
    with log:
        log.append_batches(send(MAX_SEQUENCE - 1, 4), now_ms=NOW)
        assert log.append_batches(send(MAX_SEQUENCE - 1, 4), now_ms=NOW) == 0
        assert log.append_batches(send(2), now_ms=NOW) == 4


def test_producers_expire_a_day_after_their_last_record(log: PartitionLog) -> None:
    day = 24 * 3600 * 1000
    with log:
        log.append_batches(send(0), now_ms=NOW)
        log.append_batches(send(0, producer=9, attributes=16), now_ms=NOW)
    with log:
        log.append_batches(send(0, producer=9, attributes=16), now_ms=T0 + day)  # its transaction is open
        assert log.append_batches(send(50), now_ms=T0 + day) == 6


def test_producer_state_begins_at_the_log_start_offset(tmp_path: Path) -> None:
    """As in a broker that starts after DeleteRecords (Kafka: ProducerStateManager.truncateAndReload)."""
    path = tmp_path / "logs"
    with LogDir.create(path) as log_dir:
        log_dir.create_topic("t")
        log_dir.partition("t", 0).append_batches(send(0, attributes=TRANSACTIONAL), now_ms=NOW)
    for start, stable in ((2, 2), (3, 6)):
        delete_records(path, {("t", 0): start})
        with LogDir(path) as log_dir:
            log = log_dir.partition("t", 0)
            assert log.last_stable_offset == start
            if start == 2:
                with pytest.raises(OutOfOrderSequenceError):
                    log.append_batches(send(50), now_ms=NOW)
            else:
                assert log.append_batches(send(50), now_ms=NOW) == 3
            assert log.last_stable_offset == stable


@settings(max_examples=examples(25), deadline=None)
@given(
    sends=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), st.booleans()), max_size=25),
)
def test_a_batch_sent_repeatedly_is_appended_once(
    tmp_path_factory: pytest.TempPathFactory, sends: list[tuple[int, int, bool]]
) -> None:
    """A client sends its batches in order, each one any number of times, and the log is closed sometimes."""
    path = tmp_path_factory.mktemp("logs") / "t-0"
    path.mkdir()
    log, following = PartitionLog.open(path), 0
    for back, times, close in sends:
        expected = following if back == 0 else max(0, following - 1)
        for _ in range(times):
            assert log.append_batches(send(3 * expected), now_ms=NOW) == 3 * expected
        if times and expected == following:
            following += 1
        if close:
            log.close()
    log.close()
    assert offsets(PartitionLog.open(path).read(columns=["offset"])) == list(range(3 * following))


def test_an_unknown_producer_may_begin_anywhere() -> None:
    check_next(None, 1, 0, 12345, is_transactional=False, path=None)


def test_a_producer_without_a_known_epoch_may_begin_anywhere(tmp_path: Path) -> None:
    """This occurs after a control batch whose marker compaction removed."""
    entry = ProducerStateEntry(7, -1, -1, -1, 0, -1, -1, -1)
    (tmp_path / "t-0").mkdir()
    with PartitionLog.open(tmp_path / "t-0") as log:
        log.append_batches(batch(0), now_ms=NOW)
    (tmp_path / "t-0" / f"{3:020d}.snapshot").write_bytes(snapshot_bytes([entry]))
    with PartitionLog.open(tmp_path / "t-0") as log:
        assert log.append_batches(send(9), now_ms=NOW) == 3
        with pytest.raises(OutOfOrderSequenceError, match="expected sequence 12"):
            log.append_batches(send(15), now_ms=NOW)
