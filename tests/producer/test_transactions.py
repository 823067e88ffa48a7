"""Transactions: the states of a producer, the coordinator, and what readers get."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from native_log import KafkaLogError, LogDir, recover
from native_log.errors import (
    InvalidTxnStateError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortedError,
)
from native_log.producer import KafkaLogProducer, transaction_file
from native_log.producer.batch import TopicPartition
from native_log.producer.coordinator import TransactionCoordinator
from native_log.producer.log_directories import LogDirectories
from native_log.producer.sequences import ProducerSequences
from native_log.producer.settings import ProducerConfig
from native_log.producer.transaction_file import TRANSACTION_STATE, TransactionFile
from native_log.producer.transaction_state import (
    MAX_EPOCH,
    TransactionEntry,
    TransactionState,
    next_producer,
    with_partitions,
)
from native_log.producer.transactions import State, TransactionManager
from tests.killing import survives

from .support import MockClock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class MockCoordinator:
    """A coordinator that notes its calls, and raises errors in their order."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.errors: list[Exception] = []

    def init_producer(self) -> tuple[int, int]:
        return 7, 3

    def add_partitions(self, _: int, partitions: Iterable[TopicPartition]) -> None:
        self.calls.append(sorted(partitions))

    def end(self, _: int, *, commit: bool) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.calls.append("commit" if commit else "abort")

    def close(self) -> None:
        pass


class Manager:
    """A manager in the middle of a transaction with data."""

    def __init__(self) -> None:
        self.coordinator = MockCoordinator()
        self.sequences = ProducerSequences()
        self.manager = TransactionManager(self.coordinator, self.sequences, 60_000)
        self.manager.initialize()
        self.manager.begin(0)
        self.manager.add([A])


def test_a_transaction() -> None:
    at = Manager()
    assert (at.sequences.producer_id, at.sequences.producer_epoch, at.sequences.is_transactional) == (
        7,
        3,
        True,
    )
    at.manager.check_send()
    at.manager.add([A, B])
    ended = at.manager.begin_end(commit=True)
    with pytest.raises(
        InvalidTxnStateError, match=r"expected send in state IN_TRANSACTION .*found it in state COMMITTING"
    ):
        at.manager.check_send()
    at.manager.progress(0, is_idle=False)
    assert not ended.is_set() and at.manager.accepts_batches
    at.manager.progress(0, is_idle=True)
    assert ended.is_set()
    at.manager.finish_end()
    assert at.coordinator.calls == [[A], [B], "commit"]
    assert at.manager.state == State.READY
    at.manager.begin(0)
    at.manager.begin_end(commit=False)
    at.manager.progress(0, is_idle=True)
    assert len(at.coordinator.calls) == 3, "expected no markers of a transaction without data"


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        (State.UNINITIALIZED, {"initialize"}),
        (State.READY, {"begin"}),
        (State.IN_TRANSACTION, {"commit", "abort", "send"}),
        (State.COMMITTING_TRANSACTION, {"commit"}),
        (State.ABORTING_TRANSACTION, {"abort"}),
        (State.ABORTABLE_ERROR, {"abort"}),
        (State.FATAL_ERROR, set()),
    ],
)
def test_operations_in_each_state(state: State, allowed: set[str]) -> None:
    def operations(manager: TransactionManager) -> dict[str, Any]:
        return {
            "initialize": manager.initialize,
            "begin": lambda: manager.begin(0),
            "commit": lambda: manager.begin_end(commit=True),
            "abort": lambda: manager.begin_end(commit=False),
            "send": manager.check_send,
        }

    for name in operations(Manager().manager):
        manager = Manager().manager
        manager.state = state
        manager.error = KafkaLogError("why")
        if name in allowed:
            operations(manager)[name]()
        else:
            with pytest.raises(KafkaLogError):
                operations(manager)[name]()


def test_a_failed_record_makes_a_commit_fail() -> None:
    at = Manager()
    ended = at.manager.begin_end(commit=True)
    at.manager.note_failure(KafkaTimeoutError("too late"))
    at.manager.progress(0, is_idle=False)
    assert ended.is_set()
    with pytest.raises(InvalidTxnStateError, match="a record failed: too late; call abort_transaction"):
        at.manager.finish_end()
    at.manager.begin_end(commit=False)
    at.manager.progress(0, is_idle=True)
    at.manager.finish_end()
    assert at.coordinator.calls == [[A], "abort"]
    at.manager.begin(0)


def test_an_end_that_timed_out_is_repeated() -> None:
    at = Manager()
    at.manager.begin_end(commit=True)  # the caller waits for a while
    at.manager.progress(0, is_idle=True)
    for operation in (lambda: at.manager.begin(0), lambda: at.manager.begin_end(commit=False)):
        with pytest.raises(InvalidTxnStateError, match="expected commit_transaction to be repeated"):
            operation()
    assert at.manager.begin_end(commit=True).is_set()
    at.manager.finish_end()
    with pytest.raises(InvalidTxnStateError, match="found it in state READY"):
        at.manager.begin_end(commit=True)
    at.manager.begin(0)
    assert at.coordinator.calls == [[A], "commit"]


def test_the_error_of_an_attempt_that_nobody_waited_for_is_forgotten() -> None:
    at = Manager()
    at.coordinator.errors = [OSError(28, "No space left on device")]
    for _ in range(2):
        at.manager.begin_end(commit=True)
        at.manager.progress(0, is_idle=True)
    at.manager.finish_end()
    assert at.coordinator.calls == [[A], "commit"]


def test_an_end_that_failed_is_repeated() -> None:
    at = Manager()
    at.coordinator.errors = [OSError(28, "No space left on device")]
    at.manager.begin_end(commit=True)
    at.manager.progress(0, is_idle=True)
    with pytest.raises(OSError, match="No space"):
        at.manager.finish_end()
    with pytest.raises(InvalidTxnStateError):
        at.manager.begin_end(commit=False)
    at.manager.progress(0, is_idle=True)
    assert at.coordinator.calls == [[A]], "expected no attempt without a call of commit_transaction"
    at.manager.begin_end(commit=True)
    at.manager.progress(0, is_idle=True)
    at.manager.finish_end()
    assert at.coordinator.calls == [[A], "commit"]


def test_a_fenced_producer_can_do_nothing_more() -> None:
    at = Manager()
    at.coordinator.errors = [ProducerFencedError("newer")]
    at.manager.begin_end(commit=True)
    at.manager.progress(0, is_idle=True)
    for operation in (
        at.manager.finish_end,
        lambda: at.manager.begin(0),
        lambda: at.manager.begin_end(commit=False),
    ):
        with pytest.raises(ProducerFencedError, match="newer"):
            operation()


def test_a_transaction_times_out() -> None:
    at = Manager()
    assert at.manager.next_timeout_ms(1000) == 59_000
    at.manager.progress(59_999, is_idle=True)
    at.manager.progress(60_000, is_idle=False)
    assert at.manager.state == State.ABORTABLE_ERROR
    assert at.coordinator.calls == [[A]]
    at.manager.progress(60_001, is_idle=True)
    assert at.coordinator.calls == [[A], "abort"]
    with pytest.raises(InvalidTxnStateError, match=r"open for 60000 ms \(transaction\.timeout\.ms\)"):
        at.manager.check_send()
    at.manager.begin_end(commit=False)
    at.manager.progress(60_002, is_idle=True)
    at.manager.finish_end()
    assert at.coordinator.calls == [[A], "abort"]


def test_epochs() -> None:
    assert next_producer(None, lambda: 9) == TransactionEntry(9, 0)
    assert next_producer(TransactionEntry(5, 3), lambda: 9) == TransactionEntry(5, 4)
    assert next_producer(TransactionEntry(5, MAX_EPOCH), lambda: 9) == TransactionEntry(9, 0)


def test_partitions_are_added_once() -> None:
    entry = with_partitions(TransactionEntry(5, 3, TransactionState.COMPLETE_ABORT), (A,))
    assert (entry.state, entry.partitions) == (TransactionState.ONGOING, (A,))
    assert with_partitions(with_partitions(entry, (B, A)), (B,)).partitions == (A, B)


def state_of(path: Path, transactional_id: str = "x") -> TransactionEntry | None:
    return TransactionFile(path).get(transactional_id, 0)


STATES = {
    "old": TransactionEntry(1, 0, updated_ms=0),
    "open": TransactionEntry(2, 0, TransactionState.ONGOING, (A, B), updated_ms=0),
    "tab\t, line\n, \u2028": TransactionEntry(3, 5, TransactionState.COMPLETE_COMMIT, updated_ms=10**9),
}


def test_the_state_file(tmp_path: Path) -> None:
    file = TransactionFile(tmp_path)
    assert file.get("old", 0) is None
    for name, entry in STATES.items():
        file.put(name, replace(entry, producer_epoch=7))
        file.put(name, entry)
        assert file.get(name, 0) == entry
    file.close()
    again = TransactionFile(tmp_path)
    assert {name: again.get(name, 10**9) for name in STATES} == {**STATES, "old": None}


def test_the_state_file_is_rewritten_when_obsolete_lines_prevail(tmp_path: Path) -> None:
    file, path = TransactionFile(tmp_path), tmp_path / TRANSACTION_STATE
    file.put("old", TransactionEntry(1, 0, updated_ms=0))
    sizes = []
    for number in range(3000):
        file.put("x", TransactionEntry(2, number, updated_ms=10**9))
        sizes.append(path.stat().st_size)
        if number % 700 == 0:  # the count of lines survives a restart
            file.close()
            file = TransactionFile(tmp_path)
    file.close()
    assert max(sizes) < 200_000
    assert sum(after < before for before, after in pairwise(sizes)) in (2, 3)
    assert b'"old"' not in path.read_bytes()
    assert state_of(tmp_path) == TransactionEntry(2, 2999, updated_ms=10**9)


def test_a_state_file_of_the_first_version(tmp_path: Path) -> None:
    ids = {name: asdict(entry) for name, entry in STATES.items()}
    for indent in (None, 1):
        text = json.dumps({"version": 0, "transactional_ids": ids}, indent=indent)
        (tmp_path / TRANSACTION_STATE).write_text(text)
        file = TransactionFile(tmp_path)
        assert {name: file.get(name, 0) for name in STATES} == STATES
        file.put("new", TransactionEntry(9, 9, updated_ms=1))
        file.close()
        assert {name: state_of(tmp_path, name) for name in STATES} == STATES
        assert state_of(tmp_path, "new") == TransactionEntry(9, 9, updated_ms=1)


@pytest.mark.parametrize("lost", ["a part", "the beginning"])
def test_a_line_that_a_crash_has_cut_is_undone(tmp_path: Path, lost: str) -> None:
    path = tmp_path / TRANSACTION_STATE
    file = TransactionFile(tmp_path)
    for epoch in range(3):
        file.put("x", TransactionEntry(2, epoch))
    file.close()
    data = path.read_bytes()
    start = data[:-1].rindex(b"\n") + 1
    for size in range(1, len(data) - start):
        cut = data[: start + size] if lost == "a part" else data[:start] + bytes(size) + data[start + size :]
        path.write_bytes(cut)
        after = TransactionFile(tmp_path)
        assert after.get("x", 0) == TransactionEntry(2, 1)
        after.put("y", TransactionEntry(5, 5))
        after.close()
        assert state_of(tmp_path) == TransactionEntry(2, 1)
        assert state_of(tmp_path, "y") == TransactionEntry(5, 5)
        assert path.read_bytes().startswith(data[:start] + b'"y"')


@pytest.mark.parametrize(
    "wrong",
    [
        *("{", "[]", '{"version": 2}', '{"version": 0, "transactional_ids": {"x": {}}}'),
        *('{"version": 1}', '{"version": 1, "ids": 1}\nx\n"x"\t{}\n'),
    ],
)
def test_a_damaged_state_file_is_an_error(tmp_path: Path, wrong: str) -> None:
    (tmp_path / TRANSACTION_STATE).write_text(wrong)
    with pytest.raises(KafkaLogError, match="expected the state of transactional producers as JSON"):
        TransactionFile(tmp_path)


def test_a_transaction_reads_and_writes_its_own_state_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ids = tmp_path / "logs", {f"id-{n}": asdict(TransactionEntry(n, 0)) for n in range(2000)}
    LogDir.create(path)
    text = json.dumps({"version": 0, "transactional_ids": ids})
    (path / TRANSACTION_STATE).write_text(text)
    with transactional(path) as producer:
        producer.init_transactions()
        before = (path / TRANSACTION_STATE).stat()
        monkeypatch.setattr(transaction_file, "read_file", None)
        for _ in range(3):
            producer.begin_transaction()
            producer.send("t", b"v", partition=0)
            producer.commit_transaction()
        after = (path / TRANSACTION_STATE).stat()
    assert after.st_ino == before.st_ino
    assert after.st_size - before.st_size < 3000


def transactional(path: Path, **settings: Any) -> KafkaLogProducer:
    settings = {"transactional_id": "x", "num_partitions": 2, "linger_ms": 10_000, **settings}
    return KafkaLogProducer(path, settings)


def committed(path: Path, partition: int = 0) -> list[bytes]:
    log = LogDir(path).partition("t", partition)
    assert log.last_stable_offset == log.log_end_offset
    rows = log.read(columns=["value"], isolation_level="read_committed").read_all()
    values: list[bytes] = rows.column("value").to_pylist()
    return values


def test_readers_get_committed_records_only(tmp_path: Path) -> None:
    with transactional(tmp_path / "logs") as producer:
        producer.init_transactions()
        for name, commit in (("a", True), ("b", False), ("c", False), ("d", True)):
            producer.begin_transaction()
            futures = [producer.send("t", f"{name}{number}", partition=number % 2) for number in range(4)]
            if name == "b":
                producer.flush()
            (producer.commit_transaction if commit else producer.abort_transaction)()
            assert [isinstance(future.exception, TransactionAbortedError) for future in futures] == [
                name == "c"
            ] * 4
    assert committed(tmp_path / "logs") == [b"a0", b"a2", b"d0", b"d2"]
    log = LogDir(tmp_path / "logs").partition("t", 1)
    assert committed(tmp_path / "logs", 1) == [b"a1", b"a3", b"d1", b"d3"]
    transactions = log.transactions().to_pylist()
    assert [each["state"] for each in transactions] == ["committed", "aborted", "committed"]
    assert log.segments[0].transaction_index is not None
    batches = [row for batch in log.batches() for row in batch.to_pylist() if not row["isControl"]]
    assert [row["baseSequence"] for row in batches] == [0, 2, 4]


def test_a_second_producer_fences_the_first(tmp_path: Path) -> None:
    with transactional(tmp_path / "logs") as first, transactional(tmp_path / "logs") as second:
        first.init_transactions()
        first.begin_transaction()
        first.send("t", b"lost", partition=0)
        first.flush()
        second.init_transactions()
        first.send("t", b"lost too", partition=0)
        with pytest.raises(ProducerFencedError):
            first.commit_transaction()
        with pytest.raises(ProducerFencedError):
            first.abort_transaction()
        second.begin_transaction()
        second.send("t", b"kept", partition=0)
        second.commit_transaction()
    assert committed(tmp_path / "logs") == [b"kept"]
    log = LogDir(tmp_path / "logs").partition("t", 0)
    markers = [
        row["producerEpoch"] for batch in log.batches() for row in batch.to_pylist() if row["isControl"]
    ]
    assert markers == [1, 2]  # the marker that ends the first one's transaction has an epoch of its own


def test_a_fenced_producer_that_has_written_nothing_notices_at_its_first_record(tmp_path: Path) -> None:
    with transactional(tmp_path / "logs") as first, transactional(tmp_path / "logs") as second:
        first.init_transactions()
        second.init_transactions()
        first.begin_transaction()
        future = first.send("t", b"lost", partition=0)
        first.flush()
        assert isinstance(future.exception, ProducerFencedError)
    assert committed(tmp_path / "logs") == []


def test_close_aborts_an_open_transaction(tmp_path: Path) -> None:
    with transactional(tmp_path / "logs") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v", partition=0)
    assert committed(tmp_path / "logs") == []
    state = state_of(tmp_path / "logs")
    assert state is not None and state.state == TransactionState.COMPLETE_ABORT


def test_the_next_producer_aborts_what_a_forced_close_left_open(tmp_path: Path) -> None:
    producer = transactional(tmp_path / "logs")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"v", partition=0)
    producer.flush()
    producer.close(0)
    log = LogDir(tmp_path / "logs").partition("t", 0)
    assert (log.last_stable_offset, log.log_end_offset) == (0, 1)
    with transactional(tmp_path / "logs") as after:
        after.init_transactions()
    assert committed(tmp_path / "logs") == []


def test_close_repeats_a_commit_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end, errors = TransactionCoordinator.end, [OSError(28, "No space left on device")]

    def failing(self: TransactionCoordinator, epoch: int, *, commit: bool) -> None:
        if errors:
            raise errors.pop()
        end(self, epoch, commit=commit)

    monkeypatch.setattr(TransactionCoordinator, "end", failing)
    with transactional(tmp_path / "logs") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v", partition=0)
        with pytest.raises(OSError, match="No space"):
            producer.commit_transaction()
    assert committed(tmp_path / "logs") == [b"v"]
    assert (tmp_path / "logs/.kafka_cleanshutdown").exists()


def test_a_failed_record_must_be_aborted(tmp_path: Path) -> None:
    with transactional(tmp_path / "logs", max_request_size=200) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v", partition=0)
        assert producer.send("t", b"v" * 200).failed()
        with pytest.raises(InvalidTxnStateError, match="a record failed: The message is"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"w", partition=0)
        producer.commit_transaction()
    assert committed(tmp_path / "logs") == [b"w"]


def test_operations_out_of_order_are_rejected(tmp_path: Path) -> None:
    with transactional(tmp_path / "logs") as producer:
        with pytest.raises(InvalidTxnStateError, match="found it in state UNINITIALIZED"):
            producer.send("t", b"v")
        with pytest.raises(InvalidTxnStateError, match="expected begin_transaction in state READY"):
            producer.begin_transaction()
        with pytest.raises(NotImplementedError, match="group coordinator"):
            producer.send_offsets_to_transaction({}, "group")
    with KafkaLogProducer(tmp_path / "logs") as plain:
        with pytest.raises(InvalidTxnStateError, match=r"setting the transactional\.id"):
            plain.init_transactions()
        assert plain.send("t", b"v", partition=0).get(10).offset == 0


def test_transactions_are_atomic_at_every_crash(tmp_path: Path) -> None:
    """The process is killed at each change of a file. Then both partitions have all records or none."""
    outcomes = set()
    for step in range(0, 1000, 5):
        path = tmp_path / f"logs{step}"
        LogDir.create(path).create_topic("t", 2)
        finished = survives(partial(write_transaction, path), step)
        if not (path / ".kafka_cleanshutdown").exists():
            recover(path)
        after = coordinator(path)
        after.init_producer()
        after.close()
        records = [committed(path, partition) for partition in range(2)]
        assert records in ([[], []], [[b"0"], [b"1"]]), step
        outcomes.add(bool(records[0]))
        if finished:
            break
    assert outcomes == {False, True}


def leave_open(path: Path) -> None:
    """Leave a transaction with data in both partitions, as a crash does."""
    LogDir.create(path).create_topic("t", 2)
    with transactional(path) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(2):
            producer.send("t", b"v", partition=partition)
        producer.flush()
        producer.close(0)


def test_a_removed_partition_drops_out_of_a_transaction(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "logs"
    leave_open(path)
    shutil.rmtree(path / "t-1")
    for attempt in range(3):
        with transactional(path) as producer:
            producer.init_transactions()
        assert LogDir(path).partition("t", 0).log_end_offset == 2, attempt
    assert committed(path) == []
    warning = "partition t-1 was removed; the transaction of transactional.id x is aborted without it"
    assert [record.getMessage() for record in caplog.records if "removed" in record.getMessage()] == [warning]


@pytest.mark.parametrize("commit", [True, False])
def test_a_partition_that_is_removed_during_a_transaction(tmp_path: Path, *, commit: bool) -> None:
    path = tmp_path / "logs"
    LogDir.create(path).create_topic("t", 2)
    transactions = coordinator(path)
    producer_id, epoch = transactions.init_producer()
    transactions.add_partitions(epoch, [A, B])
    with LogDirectories(path, ProducerConfig.parse({})).log(A) as log:
        log.append(
            pa.record_batch({"value": [b"v"]}),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
    shutil.rmtree(path / "t-1")  # after the producer has listed it
    transactions.end(epoch, commit=commit)
    transactions.close()
    assert committed(path) == [b"v"] * commit


def test_markers_are_not_repeated_by_another_attempt(tmp_path: Path) -> None:
    path = tmp_path / "logs"
    leave_open(path)
    (path / "t-1").rename(tmp_path / "away")
    (path / "t-1").mkdir()
    (path / "t-1" / f"{0:020}.log").mkdir()  # no marker can be written
    for _ in range(3):
        with transactional(path) as producer, pytest.raises((KafkaLogError, OSError)):
            producer.init_transactions()
        assert LogDir(path).partition("t", 0).log_end_offset == 2
    shutil.rmtree(path / "t-1")
    (tmp_path / "away").rename(path / "t-1")
    with transactional(path) as producer:
        producer.init_transactions()
    assert [committed(path, partition) for partition in range(2)] == [[], []]
    assert LogDir(path).partition("t", 0).log_end_offset == 2


def test_a_removed_partition_drops_out_at_every_crash(tmp_path: Path) -> None:
    leave_open(tmp_path / "open")
    shutil.rmtree(tmp_path / "open/t-1")

    def begin(path: Path) -> None:
        after = coordinator(path)
        after.init_producer()
        after.close()

    for step in range(1000):
        path = tmp_path / f"logs{step}"
        shutil.copytree(tmp_path / "open", path)
        finished = survives(partial(begin, path), step)
        if not (path / ".kafka_cleanshutdown").exists():
            recover(path)
        begin(path)
        assert committed(path) == []
        # A marker that was written right before the crash is written again, as by a broker.
        assert LogDir(path).partition("t", 0).log_end_offset in (2, 3), step
        end = LogDir(path).partition("t", 0).log_end_offset
        begin(path)
        assert LogDir(path).partition("t", 0).log_end_offset == end
        shutil.rmtree(path)
        if finished:
            break
    else:
        pytest.fail("expected the process to survive")


def coordinator(path: Path) -> TransactionCoordinator:
    return TransactionCoordinator("x", LogDirectories(path, ProducerConfig.parse({})), MockClock())


def write_transaction(path: Path) -> None:
    """Do what a producer's threads do in a transaction, in one thread."""
    directories = LogDirectories(path, ProducerConfig.parse({}))
    transactions = TransactionCoordinator("x", directories, MockClock())
    producer_id, epoch = transactions.init_producer()
    transactions.add_partitions(epoch, [A, B])
    logs = [directories.log(target) for target in (A, B)]
    for number, log in enumerate(logs):
        log.append(
            pa.record_batch({"value": [b"%d" % number]}),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        log.close()
    transactions.end(epoch, commit=True)
    transactions.close()
