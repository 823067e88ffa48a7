"""Compaction with Spark when the driver is killed, or attempts run at the same time."""

from __future__ import annotations

import itertools
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from kafkalog_spark.cluster import Row, row_batch, rows
from kafkalog_spark.compaction.exchange import PackWriter
from kafkalog_spark.compaction.inspection import inspect_partition
from kafkalog_spark.compaction.install import _install_partition, remove_staging
from kafkalog_spark.compaction.key_collection import collect_keys
from kafkalog_spark.compaction.messages import (
    KeySplit,
    PartitionResult,
    PartitionToCompact,
    RunSettings,
    SurveyPart,
)
from kafkalog_spark.compaction.rewrite import GroupInput, unite
from native_log.config import LogConfig
from native_log.log.replacing.interrupted import STAGING_DIRECTORY, finish_interrupted
from native_log.log.sources.directory import DirectorySource
from native_log.policies import CompactionPolicy
from native_log.records import DEFAULT_MAX_BATCH_BYTES, Survivors
from native_log.storage.local import LocalStorage
from tests.contents import files

from .test_compact import CONFIG, NOW_MS, log_dir

if TYPE_CHECKING:
    from native_log.storage import DataFile

TOPIC = "compact-idem"
POLICY = CompactionPolicy(LogConfig.parse({**CONFIG, "segment.bytes": "12000"}))
SETTINGS = RunSettings(POLICY.config.log_cleaner_dedupe_buffer_size, NOW_MS, False)


class Killed(BaseException):
    """Stands for the death of the process: no code catches it."""


def records(data: Path) -> list[dict[str, Any]]:
    log = native_log.LogDir(data).partition(TOPIC, 0)
    return [row for batch in log.read(columns=["offset", "key", "value"]) for row in batch.to_pylist()]


def stage(data: Path) -> PartitionResult:
    """Compact the partition into its staging directory, as a task does."""
    (data / f"{TOPIC}-0" / STAGING_DIRECTORY).mkdir(exist_ok=True)
    partition = PartitionToCompact(DirectorySource(*_directory(data)), POLICY)
    return inspect_partition(partition, SETTINGS, compact_whole=True)


def _directory(data: Path) -> tuple[Any, ...]:
    log = native_log.LogDir(data).partition(TOPIC, 0)
    return str(log.path), log.topic, log.partition, log.checkpoints


def install(result: PartitionResult) -> None:
    assert result.statistics is not None and result.staged
    assert _install_partition(result).status == "cleaned"


def install_until(result: PartitionResult, step: int) -> bool:
    """Kill the driver at its `step`-th change to a directory. Return whether it finished before that."""
    changes = 0

    def count_and_kill(real: Any) -> Any:
        def change(*args: Any, **kwargs: Any) -> Any:
            nonlocal changes
            if changes == step:
                raise Killed
            changes += 1
            return real(*args, **kwargs)

        return change

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((Path, "rename"), (Path, "unlink"), (shutil, "rmtree")):
            patch.setattr(owner, name, count_and_kill(getattr(owner, name)))
        try:
            install(result)
        except Killed:
            return False
    return True


def test_a_driver_killed_at_any_change(tmp_path: Path) -> None:
    original = log_dir(tmp_path / "original", "round2", (TOPIC,))
    before = records(original)
    whole = Path(shutil.copytree(original, tmp_path / "whole"))
    install(stage(whole))
    after = records(whole)
    assert 0 < len(after) < len(before)
    bases = sorted(int(p.stem) for p in original.glob(f"{TOPIC}-0/*.log"))
    compacted = [group.base_offsets[0] for group in stage(original).staged]
    shutil.rmtree(original / f"{TOPIC}-0" / STAGING_DIRECTORY)
    assert len(compacted) > 2
    bounds = [*compacted, bases[-1]]

    step, completed = 0, False
    while not completed:
        data = Path(shutil.copytree(original, tmp_path / "data"))
        completed = install_until(stage(data), step)

        # Each group of segments has its old or its new records.
        current = records(data)
        for start, end in itertools.pairwise(bounds):
            group = [row for row in current if start <= row["offset"] < end]
            as_before, as_after = (
                [row for row in rows if start <= row["offset"] < end] for rows in (before, after)
            )
            assert group in (as_before, as_after)
        # A broker or the next run finishes the replacement and changes no record. Then it compacts the rest.
        finish_interrupted(data / f"{TOPIC}-0", DEFAULT_MAX_BATCH_BYTES)
        assert records(data) == current
        result = stage(data)
        if result.staged:
            install(result)
        assert records(data) == after
        assert not [name for name in files(data) if name.endswith((".deleted", ".swap", ".cleaned"))]
        shutil.rmtree(data)
        step += 1
    assert step > 30


def test_the_files_of_one_of_two_attempts_are_used(tmp_path: Path) -> None:
    data = log_dir(tmp_path / "data", "round2", (TOPIC,))
    result, other = stage(data), stage(data)
    assert {group.attempt for group in result.staged}.isdisjoint(group.attempt for group in other.staged)
    whole = log_dir(tmp_path / "whole", "round2", (TOPIC,))
    install(stage(whole))

    install(other)

    assert files(data) == files(whole)


def test_an_attempt_that_outlives_the_run(tmp_path: Path) -> None:
    """Such an attempt runs on an executor that Spark has lost. Without the staging directory it leaves no
    files."""
    data = log_dir(tmp_path / "data", "round2", (TOPIC,))
    result = stage(data)
    before = files(data)
    remove_staging([result.directory.path])
    after = files(data)
    assert after.keys() < before.keys()

    partition = PartitionToCompact(result.directory, POLICY)
    too_late = inspect_partition(partition, SETTINGS, compact_whole=True)
    assert too_late.statistics is not None and too_late.statistics.status == "failed"
    with PackWriter(result.directory.path, 2) as keys, pytest.raises(FileNotFoundError):
        list(keys.write([b"a pa", b"ck"]))

    assert files(data) == after
    assert not Path(result.directory.path, STAGING_DIRECTORY).exists()


def test_a_directory_that_tasks_do_not_see(tmp_path: Path) -> None:
    """The tasks that run after the inspection report it, too."""
    data = log_dir(tmp_path / "data", "round2", (TOPIC,))
    log = native_log.LogDir(data).partition(TOPIC, 0)
    part = SurveyPart(0, 0, stage(data).directory, 0, 1, 1)
    tasks = KeySplit(0, 0, log.range(), True, b"", 0, 1, 1), part
    shutil.rmtree(data)
    for task in tasks:
        report, *_ = rows(collect_keys(iter([row_batch(0, pickle.dumps(task))]), SETTINGS))
        assert "does not see this directory" in (pickle.loads(report.payload).error or "")


def test_a_dry_run_on_a_log_that_a_broker_compacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker replaces the first file when the dry run opens it."""
    data = log_dir(tmp_path / "data", "round2", (TOPIC,))
    settings = replace(SETTINGS, dry_run=True)
    partition = PartitionToCompact(DirectorySource(*_directory(data)), POLICY)
    open_file, replaced = LocalStorage.open, list[str]()

    def open_replaced(self: LocalStorage, path: str, **options: Any) -> DataFile:
        if path.endswith(f"{0:020d}.log") and not replaced:
            replaced.append(path)
            shutil.copyfile(path, f"{path}.cleaned")
            Path(f"{path}.cleaned").replace(path)
            raise FileNotFoundError(path)
        return open_file(self, path, **options)

    monkeypatch.setattr(LocalStorage, "open", open_replaced)
    result = inspect_partition(partition, settings, compact_whole=True)
    assert replaced and result.statistics is not None and result.statistics.status == "cleaned"


def test_survivors_of_many_bundles() -> None:
    group = GroupInput()
    for number in range(100):
        group.add(Row(0, 1 + number, memoryview(Survivors([number]).to_bytes()), None))
    assert len(group.survivors) < 100
    assert list(unite(group.survivors)) == list(range(100))
    assert len(unite([])) == 0
