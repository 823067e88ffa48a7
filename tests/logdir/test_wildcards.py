"""Wildcards in paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import LogDir, scan
from native_log.logdir.wildcards import expand_wildcards
from native_log.storage import Storages
from tests.builders.copies import batches, write_copy
from tests.builders.memory_storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FOLDERS = ("eu/broker-1/t-0", "eu/broker-2/t-1", "us/broker-1/t-2", "us/.trash/t-3", "us/b[1]/t-4")


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "00000000000000000000.log").touch()
    (tmp_path / "eu" / "broker-3").touch()
    return tmp_path


def matches(paths: Iterable[Path], root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in paths]


@pytest.mark.parametrize("where", ["disk", "memory"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*/broker-1", ["eu/broker-1", "us/broker-1"]),
        ("eu/broker-?", ["eu/broker-1", "eu/broker-2"]),
        ("*/*/t-[1-3]", ["eu/broker-2/t-1", "us/broker-1/t-2"]),
        ("eu/broker-[^1]", ["eu/broker-2"]),
        ("{us,eu}/broker-1", ["eu/broker-1", "us/broker-1"]),
        ("{us/broker-{1,7},eu/*-2,nowhere}", ["eu/broker-2", "us/broker-1"]),
        ("us/.*", ["us/.trash"]),
        ("us/*", ["us/b[1]", "us/broker-1"]),
        ("us/b[1]", ["us/b[1]"]),
        ("nowhere", ["nowhere"]),
    ],
)
def test_matching_directories(backup: Path, pattern: str, expected: list[str], where: str) -> None:
    storage = MemoryStorage.copy_of(backup, str(backup)) if where == "memory" else None
    assert matches(expand_wildcards([backup / pattern], Storages(None, storage)), backup) == expected


@pytest.mark.parametrize("pattern", ["*/broker-4", "*/broker-3", "{a,b}", "*/*/*/*/*"])
def test_without_a_match_the_pattern_is_named(backup: Path, pattern: str) -> None:
    with pytest.raises(FileNotFoundError, match="no directory matches") as error:
        LogDir(backup / pattern)
    assert error.value.filename == str(backup / pattern)


def test_log_directories_are_read_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_copy(tmp_path / name, batches(0, 20))
    assert LogDir(f"{tmp_path}/*", replicas="merge").paths == (tmp_path / "a", tmp_path / "b")
    assert scan(f"{tmp_path}/{{b,c}}").count_rows() == 60
