"""Compare recovery with what brokers did with the same damage, and check its laws."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c

from native_log.checkpoints.leader_epochs import EpochEntry, assign_newer, drop_contradicted
from native_log.config import LogConfig
from native_log.errors import CorruptRecordError
from native_log.log import PartitionLog
from native_log.log.producers.producer_state import ProducerStateEntry, parse_snapshot, snapshot_bytes
from native_log.log.recovery.log_recovery import recover_log
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from tests.builders.batches import Rec, batch, marker, v2
from tests.builders.golden import GOLDEN, PARTITIONS, GoldenPartition, golden, golden_id, read_rows
from tests.builders.logs import write_log
from tests.contents import as_rows, offsets

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.log.recovery.log_recovery import LogRecovery

CORRUPT = [p for p in PARTITIONS if "afterRecoveryAndCleanStop" in p.facts]
COLUMNS = ["offset", "timestamp", "timestampType", "key", "value", "headers", "leaderEpoch"]
INDEXES = (".index", ".timeindex", ".txnindex")


def settings(partition: GoldenPartition) -> LogConfig:
    expected = json.loads((GOLDEN / partition.fixture / "expected.json").read_text())
    config = dict(expected["topics"][partition.topic]["config"])
    config.pop("message.format.version", None)
    return LogConfig.parse(config)


def run_recovery(path: Path, config: LogConfig | None = None, **how: Any) -> LogRecovery:
    return recover_log(
        path, **{"recovery_point": 0, "log_start_offset": 0, "config": config or LogConfig(), **how}
    )


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def rows_before_damage(log: PartitionLog, start: int | None = None) -> list[dict[str, Any]]:
    """Return all rows up to a batch of unknown magic, which brokers keep and at which consumers stop too."""
    batches = []
    with contextlib.suppress(CorruptRecordError):
        for batch in log.read(start, columns=COLUMNS):
            batches.append(batch)
    return as_rows(batches)


@pytest.mark.parametrize("partition", CORRUPT, ids=golden_id)
def test_recovery_of_damaged_logs_gives_what_the_broker_left(
    partition: GoldenPartition, tmp_path: Path
) -> None:
    path = tmp_path / partition.path.name
    shutil.copytree(partition.path, path)
    run_recovery(path, settings(partition))
    served = partition.facts.get("servedAfterRecovery", partition.expected)
    log = PartitionLog.open(path)
    assert (log.log_start_offset, log.log_end_offset) == (served["earliest"], served["latest"])
    rows = read_rows(GOLDEN / partition.fixture / served["rows"]["file"])
    assert rows_before_damage(log) == rows
    # Kafka 2.8 stored the offset of the record with the maximum timestamp; newer brokers store its batch's
    # last offset.
    kinds = (".log", ".index") if partition.fixture.startswith("kafka-2.8") else (".log", *INDEXES)
    expected = {
        file["path"].rsplit("/")[-1]: file["sha256"]
        for file in partition.facts["afterRecoveryAndCleanStop"]
        if file["path"].endswith(kinds)
    }
    actual = {name: hashlib.sha256(data).hexdigest() for name, data in contents(path).items()}
    assert {name: actual.get(name) for name in expected} == expected


@pytest.mark.parametrize("partition", PARTITIONS, ids=golden_id)
def test_recovery_of_an_undamaged_log_changes_no_row_and_is_idempotent(
    partition: GoldenPartition, tmp_path: Path
) -> None:
    path = tmp_path / partition.path.name
    shutil.copytree(partition.path, path)
    start = partition.expected["earliest"]
    first = run_recovery(path, settings(partition), log_start_offset=start)
    once = contents(path)
    again = run_recovery(path, settings(partition), log_start_offset=start)
    assert contents(path) == once
    assert not again.loses_data
    if not first.loses_data:
        assert rows_before_damage(PartitionLog.open(path), max(start, 0)) == partition.rows()


@pytest.mark.parametrize(
    "fixture", ["kafka-4.1/txn", "kafka-4.1/crash-txn", "kafka-3.9/txn", "kafka-2.8/txn"]
)
def test_derived_files_equal_those_of_the_broker(fixture: str, tmp_path: Path) -> None:
    partition = golden(fixture)
    path = tmp_path / partition.path.name
    path.mkdir()
    for file in partition.path.glob("*.log"):
        shutil.copy(file, path)
    plan = run_recovery(path, settings(partition))
    for file in partition.path.glob("*.txnindex"):
        assert (path / file.name).read_bytes() == file.read_bytes(), file.name
    for file in partition.path.glob("*.snapshot"):
        if (path / file.name).exists():
            ours, theirs = (parse_snapshot(snapshot.read_bytes()) for snapshot in (path / file.name, file))
            # Brokers remove producers a day after their last record, and those of the fixtures are older.
            assert {e.producer_id: e for e in theirs}.items() <= {e.producer_id: e for e in ours}.items()
    if fixture != "kafka-4.1/crash-txn":
        assert plan.leader_epochs == PartitionLog.open(partition.path).leader_epochs


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0), batch(3)[:-1]], 6: [batch(6)]})
    before = contents(path)
    plan = run_recovery(path, dry_run=True)
    assert contents(path) == before
    assert (plan.log_end_offset, len(plan.removed)) == (3, 1)
    assert [check.valid_bytes for check in plan.truncated] == [len(batch(0))]
    assert plan.lost_bytes == len(batch(3)) - 1 + len(batch(6))
    run_recovery(path)
    assert offsets(PartitionLog.open(path).read(columns=["offset"])) == [0, 1, 2]


def test_only_segments_from_the_recovery_point_on_are_read(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [b"not a batch at all" * 9], 3: [batch(3)], 6: [batch(6)[:-1]]})
    for base in (0, 3, 6):
        for kind in ("index", "timeindex"):
            (path / f"{base:020d}.{kind}").touch()
    plan = run_recovery(path, recovery_point=4)
    assert [check.segment.base_offset for check in plan.checked] == [3, 6]
    assert (plan.log_end_offset, plan.removed) == (6, ())


def test_a_log_that_ends_before_its_start_is_emptied(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0)]})
    run_recovery(path, log_start_offset=50)
    log = PartitionLog.open(path)
    assert [segment.base_offset for segment in log.segments] == [50]
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_no_segments_at_all(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {})
    run_recovery(path, log_start_offset=7)
    assert PartitionLog.open(path).log_end_offset == 7


def test_epochs_outlive_all_segments(tmp_path: Path) -> None:
    """This does not hold for a log that ends before its start offset."""
    for name, segments in (("a", {}), ("b", {0: [batch(0)]})):
        path = write_log(tmp_path / name, segments)
        (path / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
        epochs = run_recovery(path, log_start_offset=7).leader_epochs
        assert epochs == (() if segments else (EpochEntry(4, 7),))


def test_later_segments_are_removed_with_their_indexes_and_snapshots(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0)[:-4]], 3: [batch(3)], 6: [batch(6)]})
    for name in ("3.index", "3.timeindex", "3.txnindex", "6.snapshot", "9.snapshot"):
        number, kind = name.split(".")
        (path / f"{int(number):020d}.{kind}").write_bytes(b"")
    run_recovery(path)
    left = {file.name for file in path.iterdir() if file.suffix != ".snapshot"}
    assert {name.split(".")[0] for name in left if name[0] == "0"} == {f"{0:020d}"}
    assert PartitionLog.open(path).log_end_offset == 0


def test_open_and_aborted_transactions_are_recovered(tmp_path: Path) -> None:
    data = [
        batch(0, attributes=16, producer_id=7, producer_epoch=1, base_sequence=0),
        batch(3, attributes=16, producer_id=8, producer_epoch=0, base_sequence=0),
        marker(6, 7, 0, epoch=2),
        batch(7, producer_id=9, producer_epoch=0, base_sequence=5),
    ]
    path = write_log(tmp_path / "t-0", {0: data})
    run_recovery(path)
    (segment,) = PartitionLog.open(path).segments
    (aborted,) = segment.load_transaction_index().entries
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 0, 6)
    assert aborted.last_stable_offset == 3
    entries = {e.producer_id: e for e in parse_snapshot((path / f"{10:020d}.snapshot").read_bytes())}
    assert entries[7].producer_epoch == 2 and entries[7].last_sequence == -1
    assert entries[7].coordinator_epoch == 5 and entries[7].current_txn_first_offset == -1
    assert entries[8].current_txn_first_offset == 3 and entries[8].last_sequence == 2
    assert (entries[9].last_sequence, entries[9].offset_delta, entries[9].last_offset) == (7, 2, 9)


Entries = tuple[tuple[int, int], ...]


@pytest.mark.parametrize(
    ("known", "batches", "expected"),
    [
        (((0, 0), (2, 40)), ((2, 55), (3, 60)), ((0, 0), (2, 40), (3, 60))),  # compaction removed 40 to 55
        ((), ((1, 6), (4, 9)), ((1, 6), (4, 9))),  # the checkpoint is lost
        (((0, 0),), ((1, 6),), ((0, 0), (1, 6))),
        (((0, 0), (1, 5), (3, 9)), (), ((0, 0), (1, 5), (3, 9))),  # epoch 1 has no batch left
        (((5, 3),), ((0, 0), (6, 3)), ((6, 3),)),
        (((3, 50), (1, 30)), ((1, 40),), ((1, 30),)),  # the entries of the checkpoint do not increase
        (((0, 0),), ((2, 10), (1, 20), (-1, 30)), ((0, 0), (2, 10))),  # the epochs of batches do not increase
    ],
)
def test_epochs_of_the_checkpoint_and_of_the_batches(
    known: Entries, batches: Entries, expected: Entries
) -> None:
    entries = drop_contradicted([EpochEntry(*entry) for entry in known])
    for epoch, offset in batches:
        entries = assign_newer(entries, epoch, offset)
    assert [(entry.epoch, entry.start_offset) for entry in entries] == list(expected)


@pytest.mark.parametrize("content", [b"garbage", b"0\n1\n-1 0\n", b"0\n5\n0 0\n", bytes(40)])
def test_a_checkpoint_that_brokers_reject_is_replaced(content: bytes, tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0, leader_epoch=3)]})
    checkpoint = path / "leader-epoch-checkpoint"
    checkpoint.write_bytes(content)
    run_recovery(path)
    assert checkpoint.read_text() == "0\n1\n3 0\n"


def test_a_segment_without_its_index_is_truncated_and_the_log_continues_after_it(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0), batch(3)[:-1]], 6: [batch(6)], 9: [batch(9)]})
    (path / f"{0:020d}.index").unlink()
    planned = run_recovery(path, recovery_point=9, dry_run=True)
    done = run_recovery(path, recovery_point=9)
    assert [check.segment.base_offset for check in done.checked] == [0, 9]
    assert [check.segment.base_offset for check in done.truncated] == [0]
    assert (done.removed, done.log_end_offset) == ((), 12)
    assert (planned.truncated, planned.log_end_offset) == (done.truncated, 12)
    assert offsets(PartitionLog.open(path).read(columns=["offset"])) == [0, 1, 2, *range(6, 12)]


def test_an_entry_after_the_new_end_hides_no_epoch(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "t-0",
        {0: [batch(0, leader_epoch=0), batch(3, leader_epoch=1), batch(6, leader_epoch=4)[:-1]]},
    )
    (path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 6\n")
    assert [(entry.epoch, entry.start_offset) for entry in run_recovery(path).leader_epochs] == [
        (0, 0),
        (1, 3),
    ]


def test_the_end_time_of_a_transaction_is_that_of_its_marker_record(tmp_path: Path) -> None:
    data = bytearray(marker(3, 7, 0))
    base_timestamp, max_timestamp = struct.unpack_from(">qq", data, 27)
    struct.pack_into(">q", data, 35, max_timestamp + 1000)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    first = batch(0, attributes=16, producer_id=7, producer_epoch=0, base_sequence=0)
    path = write_log(tmp_path / "t-0", {0: [first, bytes(data)]})
    run_recovery(path)
    (entry,) = parse_snapshot((path / f"{4:020d}.snapshot").read_bytes())
    assert entry.timestamp_ms == base_timestamp


def test_snapshots_up_to_the_log_start_are_removed(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0)], 3: [batch(3)], 6: [batch(6)]})
    for offset in (0, 3, 6, 9, 50):
        (path / f"{offset:020d}.snapshot").write_bytes(snapshot_bytes([]))
    run_recovery(path, log_start_offset=3)
    assert sorted(int(file.stem) for file in path.glob("*.snapshot")) == [6, 9]


@pytest.mark.parametrize(("start", "producers"), [(0, {7, 8}), (2, {7, 8}), (3, {8}), (9, {8})])
def test_producers_of_segments_that_end_by_the_log_start_are_forgotten(
    start: int, producers: set[int], tmp_path: Path
) -> None:
    """As in a broker, which loads the snapshot after each segment, but not one up to the log start."""
    first = v2([Rec()] * 3, producer_id=7, producer_epoch=0, base_sequence=0)
    later = {base: [v2(offset=base, producer_id=8, producer_epoch=0, base_sequence=0)] for base in (10, 20)}
    write_log(tmp_path / "t-0", {0: [first], **later})
    run_recovery(tmp_path / "t-0", log_start_offset=start)
    snapshot = parse_snapshot((tmp_path / "t-0" / f"{20:020}.snapshot").read_bytes())
    assert {entry.producer_id for entry in snapshot} == producers


def test_staging_files_of_a_distributed_compaction_are_removed(tmp_path: Path) -> None:
    copy = shutil.copytree(golden("kafka-4.1/corrupt-undamaged").path, tmp_path / "t-0")
    before = contents(copy)
    staged = copy / STAGING_DIRECTORY / "attempt"
    staged.mkdir(parents=True)
    (staged / "00000000000000000000.log.cleaned").write_bytes(b"something")

    planned = run_recovery(copy, dry_run=True)
    assert staged.exists()
    done = run_recovery(copy)

    assert planned.left_behind == done.left_behind == (STAGING_DIRECTORY,)
    assert not staged.parent.exists()
    assert contents(copy).keys() >= before.keys()


def test_an_index_renamed_without_its_log_is_removed(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {5: [batch(5)]})
    (path / f"{0:020d}.index.swap").touch()
    run_recovery(path)
    assert not list(path.glob(f"{0:020d}.*"))


def test_an_emptied_control_batch_makes_its_producer_known_without_an_epoch(tmp_path: Path) -> None:
    emptied = v2([], 3, attributes=0x30, producer_id=7, producer_epoch=2, last_offset_delta=0)
    known = batch(0, attributes=16, producer_id=8, producer_epoch=1, base_sequence=0)
    path = write_log(
        tmp_path / "t-0", {0: [known, emptied, emptied.replace(emptied[:8], bytes(7) + b"\4", 1)]}
    )
    run_recovery(path)
    entries = {e.producer_id: e for e in parse_snapshot((path / f"{5:020d}.snapshot").read_bytes())}
    assert entries[7] == ProducerStateEntry(7, -1, -1, -1, 0, -1, -1, -1)
    assert (entries[8].producer_epoch, entries[8].current_txn_first_offset) == (1, 0)
