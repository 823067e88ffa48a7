"""Which offsets survive does not depend on how keys are gathered, cut and merged. Without Spark."""

from __future__ import annotations

import os
import pickle
import struct
from typing import TYPE_CHECKING

import pytest

from kafkalog_spark.cluster import Row, group_by_number, row_batch
from kafkalog_spark.compaction import exchange
from kafkalog_spark.compaction.inspection import inspect_partition
from kafkalog_spark.compaction.key_collection import gather_keys
from kafkalog_spark.compaction.merge import survivors_of
from kafkalog_spark.compaction.messages import LargePartition, LogToClean, PartSurvey, Settings
from kafkalog_spark.compaction.rounds import planned
from kafkalog_spark.compaction.splits import Job, jobs, work
from kafkalog_spark.partitions import OpenablePartition
from native_log import LogDir
from native_log.compaction.rounds import plan_round
from native_log.compaction.survivors import find_survivors
from native_log.config import LogConfig
from native_log.errors import CorruptRecordError
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.policies import CompactionPolicy
from native_log.records import Survivors, scan
from tests.compaction.support import ALWAYS, files, rounds

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.compaction.rounds import Round

NEWEST = [one for one in rounds() if "4.1" in str(one.before)]
ROOM = 1 << 20
CONFIG = {**ALWAYS, "segment.bytes": "40000"}


def settings(max_bytes: int = ROOM, dry_run: bool = False) -> Settings:
    return Settings(max_bytes, 0, dry_run)


def large_partition(partition: Path) -> LargePartition:
    (partition / STAGING_DIRECTORY).mkdir()  # as the driver does
    log = LogDir(partition.parent).partition(partition.name.rpartition("-")[0], 0)
    directory = OpenablePartition(str(log.path), log.topic, log.partition, log.checkpoints)
    found = inspect_partition(
        LogToClean(directory, CompactionPolicy(LogConfig.parse(CONFIG))), settings(), whole=False
    ).large_partition
    assert found is not None
    return found


def copies(to: Path) -> list[LargePartition]:
    """Of all logs that brokers were about to clean."""
    return [large_partition(one.copy(to / str(i)) / f"{one.topic}-0") for i, one in enumerate(NEWEST)]


def surveyed(one: LargePartition) -> Round:
    how = settings()
    return plan_round(one.directory.open(), one.found, one.policy.config, how.now_ms)


def gathered(job: Job, how: Settings, split_bytes: int) -> tuple[list[Row], dict[int, list[Row]]]:
    """What the tasks tell for the plan, and bundles by their number."""
    number = job.first_bundle + job.bundles
    asked = [row_batch(0, pickle.dumps(one)) for one in work(job, number, split_bytes)]
    found = group_by_number(gather_keys(iter(asked), how))
    return found.pop(number), found


def survivors(job: Job, how: Settings, split_bytes: int) -> tuple[Survivors, int]:
    """Of a round, and how many records have no key: by the tasks."""
    told, bundles = gathered(job, how, split_bytes)
    values: list[PartSurvey] = [pickle.loads(one.payload) for one in told]
    assert not [one for one in values if one.error is not None or one.has_transactions]
    merged = [survivors_of([pickle.loads(one.payload) for one in rows]) for rows in bundles.values()]
    return Survivors().union(*merged), sum(one.null_keys for one in values)


@pytest.mark.parametrize("dry_run", [False, True], ids=["files", "dry run"])
@pytest.mark.parametrize(("split_bytes", "max_bytes"), [(ROOM, ROOM), (3000, ROOM), (3000, 900), (ROOM, 300)])
def test_as_found_by_one_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: int, max_bytes: int, dry_run: bool
) -> None:
    monkeypatch.setattr(exchange, "MERGED_BYTES", 2000)
    logs = copies(tmp_path)
    before = files(tmp_path)
    how = settings(max_bytes, dry_run)
    for one in logs:
        round = surveyed(one)
        (job,) = jobs([(one, round)], cores=16)
        assert survivors(job, how, split_bytes) == find_survivors(round, ROOM)
    left = {name: content for name, content in files(tmp_path).items() if STAGING_DIRECTORY not in name}
    assert left == before
    assert (files(tmp_path) == before) == dry_run


def test_a_round_is_planned_on_the_way(tmp_path: Path) -> None:
    """As by a survey before; unless there are transactions, which are met wherever they are."""
    how = settings()
    met = 0
    for one in copies(tmp_path):
        round = surveyed(one)
        (job,) = jobs([(one, None)], cores=1)
        told, _ = gathered(job, how, 3000)
        found = planned([Row(0, -1, pickle.dumps(one), None), *told], how)
        assert found.has_transactions == (found.round is None)
        assert found.error is None
        if found.round is None:
            met += 1
        else:
            assert found.round == round
    assert 0 < met < len(NEWEST)


def test_bundles_of_many_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = copies(tmp_path)[0]
    round = surveyed(one)
    monkeypatch.setattr("kafkalog_spark.compaction.splits.KEYS_A_BUCKET", 40)
    (job,) = jobs([(one, round)], cores=2)
    assert job.bundles == 4
    assert job.buckets > 2
    assert survivors(job, settings(), 3000) == find_survivors(round, ROOM)


def test_a_key_that_has_no_room(tmp_path: Path) -> None:
    one = copies(tmp_path)[0]
    (job,) = jobs([(one, surveyed(one))], cores=1)
    told, bundles = gathered(job, settings(max_bytes=10), ROOM)
    assert not bundles
    errors = [pickle.loads(found.payload).error for found in told]
    assert any("log.cleaner.dedupe.buffer.size" in (error or "") for error in errors)


def test_of_attempts_one_is_referred_to(tmp_path: Path) -> None:
    """Tasks tried again, or twice at a time: each attempt has files of its own."""
    one = copies(tmp_path)[0]
    round = surveyed(one)
    (job,) = jobs([(one, round)], cores=2)
    asked = [row_batch(0, pickle.dumps(part)) for part in work(job, job.bundles, 3000)]
    cut_short = gather_keys(iter(asked), settings())
    assert next(cut_short).num_rows == 1
    cut_short.close()
    first, second = (group_by_number(gather_keys(iter(asked), settings())) for _ in range(2))
    for number in range(job.bundles):
        for found in first[number]:
            os.truncate(pickle.loads(found.payload).source, 1)

    bundles = [[pickle.loads(one.payload) for one in second[number]] for number in range(job.bundles)]
    merged = map(survivors_of, bundles)

    assert Survivors().union(*merged) == find_survivors(round, ROOM)[0]
    with pytest.raises(OSError, match="bytes of packed keys are missing"):
        survivors_of([pickle.loads(one.payload) for one in first[0]])


@pytest.mark.parametrize("by", [-5, 100_000], ids=["back", "ahead"])
def test_offsets_out_of_order_wherever_the_log_is_cut(tmp_path: Path, by: int) -> None:
    """A batch's offset is not covered by its CRC. Where it is wrong in one split, or between two."""
    whole = next(one for one in NEWEST if one.topic == "compact-idem")
    partition = whole.copy(tmp_path / "data") / f"{whole.topic}-0"
    one = large_partition(partition)
    path = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    sound = path.read_bytes()
    scanned = scan(sound).batches
    positions, offsets = (scanned.column(name).to_pylist()[1:] for name in ("position", "baseOffset"))
    assert len(positions) > 5
    for position, offset in zip(positions, offsets, strict=True):
        data = bytearray(sound)
        struct.pack_into(">q", data, position, offset + by)
        path.write_bytes(data)
        with pytest.raises(CorruptRecordError):
            surveyed(one)
        for split_bytes in (500, 3000, ROOM):
            (job,) = jobs([(one, None)], cores=1)
            told, _ = gathered(job, settings(), split_bytes)
            error = planned([Row(0, -1, pickle.dumps(one), None), *told], settings()).error or ""
            assert path.name in error
            assert "expected a batch with offsets from" in error


def test_damage_is_named_with_its_place(tmp_path: Path) -> None:
    whole = next(one for one in NEWEST if one.topic == "compact-idem")
    partition = whole.copy(tmp_path / "data") / f"{whole.topic}-0"
    one = large_partition(partition)
    path = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    sound = path.read_bytes()
    batches = scan(sound).batches.to_pylist()
    for batch in batches:
        data = bytearray(sound)
        data[batch["position"] + batch["sizeInBytes"] - 1] ^= 0xFF
        path.write_bytes(data)
        (job,) = jobs([(one, None)], cores=1)
        told, _ = gathered(job, settings(), 3000)
        found = planned([Row(0, -1, pickle.dumps(one), None), *told], settings())
        assert found.round is None
        assert str(path) in (found.error or "")
        assert f"position {batch['position']}, offset {batch['baseOffset']}" in (found.error or "")
