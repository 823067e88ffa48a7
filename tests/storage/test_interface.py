"""Logs are read through the interface of a storage: what is not on a local disk gives the same rows."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from native_log import KafkaLogError, LogDir
from tests.builders.copies import batches, damage, rows_of, write_copy
from tests.builders.golden import GOLDEN, PARTITIONS, golden
from tests.builders.memory_storage import FailingStorage, MemoryStorage
from tests.contents import everything_in

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.arguments import Mode

ELSEWHERE = "/no/local/directory"
MODES: tuple[Mode, ...] = ("dropMalformed",)
LOG_DIRS = sorted({partition.path.parent for partition in PARTITIONS})


@pytest.mark.parametrize("path", LOG_DIRS, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_golden_directories_are_read_from_memory(path: Path) -> None:
    storage = MemoryStorage.copy_of(path, ELSEWHERE)
    elsewhere = LogDir(ELSEWHERE, storage=storage, high_watermark="checkpoint", include_deleted=True)
    local = LogDir(path, high_watermark="checkpoint", include_deleted=True)
    assert list(everything_in(elsewhere, MODES)) == list(everything_in(local, MODES))
    for directory, other in zip(elsewhere.partitions(), local.partitions(), strict=True):
        assert repr(elsewhere.topic_facts(directory)) == repr(local.topic_facts(other))


def test_a_range_is_read_in_another_process(tmp_path: Path) -> None:
    whole = batches(0, 20)
    write_copy(tmp_path, whole, rolls=[30])
    storage = MemoryStorage.copy_of(tmp_path, ELSEWHERE)
    located = LogDir(ELSEWHERE, storage=storage).partition("t", 0).range()
    parts = pickle.loads(pickle.dumps(located.split(200)))
    assert len(parts) > 3
    offsets = [o for part in parts for batch in part.read() for o in batch.column("offset").to_pylist()]
    assert offsets == [offset for offset, _ in rows_of(whole)]


def test_copies_are_merged(tmp_path: Path) -> None:
    whole = batches(0, 20)
    for name in ("a", "b"):
        write_copy(tmp_path / name, whole, rolls=[30])
    for number in (4, 15):
        damage(tmp_path / "a" / "t-0", whole[number])
    storage = MemoryStorage.copy_of(tmp_path, ELSEWHERE)
    paths = [f"{ELSEWHERE}/a", f"{ELSEWHERE}/b"]
    log = LogDir(paths, storage=storage, replicas="merge").partition("t", 0)
    assert log.read(columns=["offset"]).read_all().num_rows == 60


def test_an_access_that_fails_is_an_error_or_costs_no_row() -> None:
    path = golden("kafka-4.1/whole-broker").path.parent
    storage = MemoryStorage.copy_of(path, ELSEWHERE)
    expected = list(everything_in(LogDir(path), MODES))
    failed = 0
    while True:
        failing = FailingStorage(storage, failed)
        try:
            assert list(everything_in(LogDir(ELSEWHERE, storage=failing), MODES)) == expected
        except OSError as error:
            assert error.filename == failing.accesses[failed]
        if len(failing.accesses) <= failed:
            break
        failed += 1
    assert failed > 50


def test_a_log_elsewhere_is_not_changed(tmp_path: Path) -> None:
    write_copy(tmp_path, batches(0, 3))
    log_dir = LogDir(ELSEWHERE, storage=MemoryStorage.copy_of(tmp_path, ELSEWHERE))
    log = log_dir.partition("t", 0)
    for change in (
        lambda: log.append(None),  # type: ignore[arg-type]
        lambda: log_dir.create_topic("u"),
    ):
        with pytest.raises(KafkaLogError, match=r"not on a local disk.*copy the directory to a disk"):
            change()
