"""The survivors do not depend on how the work is divided. These tests call the tasks' functions without
Spark."""

from __future__ import annotations

import os
import pickle
import struct
from typing import TYPE_CHECKING

import pytest

from kafkalog_spark.cluster import Row, group_by_number, row_batch
from kafkalog_spark.compaction import exchange
from kafkalog_spark.compaction.inspection import inspect_partition
from kafkalog_spark.compaction.key_collection import collect_keys
from kafkalog_spark.compaction.messages import (
    CollectionReport,
    LargePartition,
    PartitionToCompact,
    RoundPlan,
    RunSettings,
)
from kafkalog_spark.compaction.resolution import plan_large_round
from kafkalog_spark.compaction.splits import ScheduledRound, divide_round, schedule_rounds
from native_log import LogDir
from native_log.compaction.rounds import plan_round
from native_log.compaction.survivors import find_survivors
from native_log.config import LogConfig
from native_log.errors import CorruptRecordError
from native_log.log import PartitionLog
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.log.sources.directory import DirectorySource
from native_log.policies import CompactionPolicy
from native_log.records import Survivors, merge, scan
from tests.builders.compaction_rounds import ALWAYS, broker_rounds
from tests.contents import files

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.compaction.rounds import Round

NEWEST = [case for case in broker_rounds() if case.kafka == "kafka-4.1"]
ENOUGH_BYTES = 1 << 20
CONFIG = {**ALWAYS, "segment.bytes": "40000"}


def settings(max_bytes: int = ENOUGH_BYTES, dry_run: bool = False) -> RunSettings:
    return RunSettings(max_bytes, 0, dry_run)


def large_partition(partition: Path) -> LargePartition:
    (partition / STAGING_DIRECTORY).mkdir()  # as the driver does
    log = LogDir(partition.parent).partition(partition.name.rpartition("-")[0], 0)
    directory = DirectorySource(str(log.path), log.topic, log.partition, log.checkpoints)
    partition_to_compact = PartitionToCompact(directory, CompactionPolicy(LogConfig.parse(CONFIG)))
    large = inspect_partition(partition_to_compact, settings(), compact_whole=False).large_partition
    assert large is not None
    return large


def copies(to: Path) -> list[LargePartition]:
    """Copy all logs as they were before a round of a broker."""
    return [large_partition(case.copy(to / str(i)) / f"{case.topic}-0") for i, case in enumerate(NEWEST)]


def plan_with_survey(large: LargePartition) -> Round:
    return plan_round(
        PartitionLog(large.directory.open()), large.cleanable, large.policy.config, settings().now_ms
    )


def schedule(large: LargePartition, round: Round | None, cores: int = 1) -> ScheduledRound:
    (scheduled,) = schedule_rounds([(large, round)], cores)
    return scheduled


def collect(
    scheduled: ScheduledRound, run: RunSettings, split_bytes: int
) -> tuple[list[Row], dict[int, list[Row]]]:
    """Run the tasks that collect keys. Return their reports, and the bundles by number."""
    number = scheduled.first_bundle + scheduled.bundles
    tasks = [row_batch(0, pickle.dumps(task)) for task in divide_round(scheduled, number, split_bytes)]
    by_number = group_by_number(collect_keys(iter(tasks), run))
    return by_number.pop(number), by_number


def plan_from_reports(large: LargePartition, reports: list[Row]) -> RoundPlan:
    return plan_large_round([Row(0, -1, pickle.dumps(large), None), *reports], settings())


def merge_rows(rows: list[Row]) -> Survivors:
    return merge(exchange.packs_by_bucket([pickle.loads(row.payload) for row in rows]))


def survivors(scheduled: ScheduledRound, run: RunSettings, split_bytes: int) -> tuple[Survivors, int]:
    """Run the tasks. Return the survivors of the round, and the number of dirty records without a key."""
    rows, bundles = collect(scheduled, run, split_bytes)
    reports: list[CollectionReport] = [pickle.loads(row.payload) for row in rows]
    assert not [report for report in reports if report.error is not None or report.has_transactions]
    merged = [merge_rows(bundle_rows) for bundle_rows in bundles.values()]
    return Survivors().union(*merged), sum(report.null_keys for report in reports)


@pytest.mark.parametrize("dry_run", [False, True], ids=["files", "dry run"])
@pytest.mark.parametrize(
    ("split_bytes", "max_bytes"),
    [(ENOUGH_BYTES, ENOUGH_BYTES), (3000, ENOUGH_BYTES), (3000, 900), (ENOUGH_BYTES, 300)],
)
def test_the_survivors_are_those_of_one_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: int, max_bytes: int, dry_run: bool
) -> None:
    monkeypatch.setattr(exchange, "MERGE_BUFFER_BYTES", 2000)
    logs = copies(tmp_path)
    before = files(tmp_path)
    run = settings(max_bytes, dry_run)
    for large in logs:
        round = plan_with_survey(large)
        scheduled = schedule(large, round, cores=16)
        assert survivors(scheduled, run, split_bytes) == find_survivors(round, ENOUGH_BYTES)
    after = {name: content for name, content in files(tmp_path).items() if STAGING_DIRECTORY not in name}
    assert after == before
    assert (files(tmp_path) == before) == dry_run


def test_a_round_is_planned_from_the_reports_of_the_tasks(tmp_path: Path) -> None:
    """The plan is the same as with a survey of its own. Transactions are discovered wherever they are."""
    with_transactions = 0
    for large in copies(tmp_path):
        round = plan_with_survey(large)
        reports, _ = collect(schedule(large, None), settings(), 3000)
        plan = plan_from_reports(large, reports)
        assert plan.has_transactions == (plan.round is None)
        assert plan.error is None
        if plan.round is None:
            with_transactions += 1
        else:
            assert plan.round == round
    assert 0 < with_transactions < len(NEWEST)


def test_bundles_of_many_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = copies(tmp_path)[0]
    round = plan_with_survey(large)
    monkeypatch.setattr("kafkalog_spark.compaction.splits.KEYS_PER_BUCKET", 40)
    scheduled = schedule(large, round, cores=2)
    assert scheduled.bundles == 4
    assert scheduled.buckets > 2
    assert survivors(scheduled, settings(), 3000) == find_survivors(round, ENOUGH_BYTES)


def test_a_key_larger_than_the_memory_of_a_task(tmp_path: Path) -> None:
    large = copies(tmp_path)[0]
    reports, bundles = collect(schedule(large, plan_with_survey(large)), settings(max_bytes=10), ENOUGH_BYTES)
    assert not bundles
    errors = [pickle.loads(row.payload).error for row in reports]
    assert any("log.cleaner.dedupe.buffer.size" in (error or "") for error in errors)


def test_each_attempt_of_a_task_writes_files_of_its_own(tmp_path: Path) -> None:
    """Spark may retry a task, or run two attempts at a time. It uses the bundles of one attempt."""
    large = copies(tmp_path)[0]
    round = plan_with_survey(large)
    scheduled = schedule(large, round, cores=2)
    tasks = [row_batch(0, pickle.dumps(task)) for task in divide_round(scheduled, scheduled.bundles, 3000)]
    interrupted = collect_keys(iter(tasks), settings())
    assert next(interrupted).num_rows == 1
    interrupted.close()
    first, second = (group_by_number(collect_keys(iter(tasks), settings())) for _ in range(2))
    for number in range(scheduled.bundles):
        for row in first[number]:
            os.truncate(pickle.loads(row.payload).source, 1)

    merged = [merge_rows(second[number]) for number in range(scheduled.bundles)]

    assert Survivors().union(*merged) == find_survivors(round, ENOUGH_BYTES)[0]
    with pytest.raises(OSError, match="expected packed keys up to position"):
        merge_rows(first[0])


@pytest.mark.parametrize("shift", [-5, 100_000], ids=["backward", "forward"])
def test_offsets_out_of_order_are_reported_with_any_splits(tmp_path: Path, shift: int) -> None:
    """A wrong base offset does not change the CRC. It may be inside a split or between two splits."""
    case = next(case for case in NEWEST if case.topic == "compact-idem")
    partition = case.copy(tmp_path / "data") / f"{case.topic}-0"
    large = large_partition(partition)
    path = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    intact = path.read_bytes()
    scanned = scan(intact).batches
    positions, offsets = (scanned.column(name).to_pylist()[1:] for name in ("position", "baseOffset"))
    assert len(positions) > 5
    for position, offset in zip(positions, offsets, strict=True):
        data = bytearray(intact)
        struct.pack_into(">q", data, position, offset + shift)
        path.write_bytes(data)
        with pytest.raises(CorruptRecordError):
            plan_with_survey(large)
        for split_bytes in (500, 3000, ENOUGH_BYTES):
            reports, _ = collect(schedule(large, None), settings(), split_bytes)
            error = plan_from_reports(large, reports).error or ""
            assert path.name in error
            assert "expected a batch with offsets from" in error


def test_damage_is_reported_with_file_position_and_offset(tmp_path: Path) -> None:
    case = next(case for case in NEWEST if case.topic == "compact-idem")
    partition = case.copy(tmp_path / "data") / f"{case.topic}-0"
    large = large_partition(partition)
    path = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    intact = path.read_bytes()
    batches = scan(intact).batches.to_pylist()
    for batch in batches:
        data = bytearray(intact)
        data[batch["position"] + batch["sizeInBytes"] - 1] ^= 0xFF
        path.write_bytes(data)
        reports, _ = collect(schedule(large, None), settings(), 3000)
        plan = plan_from_reports(large, reports)
        assert plan.round is None
        assert str(path) in (plan.error or "")
        assert f"position {batch['position']}, offset {batch['baseOffset']}" in (plan.error or "")
