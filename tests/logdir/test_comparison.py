"""native_log.diff."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from native_log.segment.files import file_name
from tests.builders.batches import Rec, batch, v2
from tests.builders.copies import Batch, batches, damage, write_copy
from tests.builders.golden import GOLDEN
from tests.builders.logs import write_log

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = GOLDEN / "kafka-4.1"


def diff(*paths: Path, **options: Any) -> list[tuple[Any, ...]]:
    rows = native_log.diff(paths, **options).read_all().to_pylist()
    return [(row["kind"], row["firstOffset"], row["lastOffset"]) for row in rows]


def test_equal_copies_have_no_differences(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_copy(tmp_path / name, batches(0, 20), rolls=[15] if name == "a" else [21, 30])
    assert diff(*(tmp_path / name for name in "abc")) == []


def test_offsets_and_epochs(tmp_path: Path) -> None:
    shared = batches(0, 8)
    write_copy(tmp_path / "a", [*shared, *batches(8, 20, tag="lost")], high_watermark=12)
    write_copy(tmp_path / "b", [*shared, *batches(8, 11, epoch=1)][2:], high_watermark=24)
    assert diff(tmp_path / "a", tmp_path / "b") == [
        ("log-start-offset", 0, 5),
        ("log-end-offset", 33, 59),
        ("high-watermark", 12, 23),
        ("leader-epochs", 24, 59),
    ]


def test_damage_is_located(tmp_path: Path) -> None:
    whole = batches(0, 20)
    first, second = (write_copy(tmp_path / name, whole) for name in "ab")
    path, position = damage(second, whole[4])
    damage(first, whole[-1], at=8)
    rows = native_log.diff(tmp_path / "a", tmp_path / "b").read_all().to_pylist()
    assert [
        (row["kind"], row["path"], row["position"], row["firstOffset"], row["lastOffset"]) for row in rows
    ] == [
        ("log-end-offset", str(first), None, 57, 59),
        ("damaged", str(next(first.glob("*.log"))), 3325, 57, None),
        ("damaged", str(path), position, 12, 14),
    ]


def test_different_batches_and_different_records(tmp_path: Path) -> None:
    whole = batches(0, 20)
    changed = [*whole[:5], *batches(5, 7, tag="x"), *whole[7:]]
    write_copy(tmp_path / "a", whole)
    write_copy(tmp_path / "b", changed)
    assert diff(tmp_path / "a", tmp_path / "b") == [("records", 15, 20)]
    records = [Rec(b"k", value, timestamp=1000) for value in (b"a", b"b")]
    first, second = tmp_path / "one" / "t-0", tmp_path / "two" / "t-0"
    write_log(first, {0: [v2(records, 0, base_timestamp=1000)]})
    write_log(second, {0: [v2(records[:1], 0, base_timestamp=1000), v2(records[1:], 1, base_timestamp=1000)]})
    assert diff(first, second) == [("batches", 0, 1)]


def test_records_that_compaction_has_removed_are_a_difference(tmp_path: Path) -> None:
    whole = batches(0, 20)
    write_copy(tmp_path / "a", whole)
    write_copy(tmp_path / "b", [*whole[:5], *whole[8:]])
    assert diff(tmp_path / "a", tmp_path / "b") == [("records", 15, 23)]


def test_a_missing_segment(tmp_path: Path) -> None:
    whole = batches(0, 20)
    write_copy(tmp_path / "a", whole)
    directory = write_copy(tmp_path / "b", whole, rolls=[15, 30])
    (directory / file_name(15, "log")).unlink()
    assert diff(tmp_path / "a", tmp_path / "b") == [("missing-offsets", 15, 29)]


def test_missing_partitions(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", batches(0, 3))
    write_log(tmp_path / "b" / "u-0", {0: [Batch(0).data]})
    assert diff(tmp_path / "a", tmp_path / "b") == [("missing", None, None), ("missing", None, None)]


def test_a_directory_that_is_given_by_two_paths_misses_nothing(tmp_path: Path) -> None:
    write_log(tmp_path / "a/t-0", {0: [batch(0)]})
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert diff(tmp_path / "a", tmp_path / "link") == []


def test_the_log_directories_of_one_broker_count_as_one(tmp_path: Path) -> None:
    ids = {"a": (1, "A" * 22), "b": (1, "B" * 22), "c": (2, "C" * 22)}
    write_copy(tmp_path / "a", batches(0, 3))
    write_log(tmp_path / "b" / "u-0", {0: [Batch(0).data]})
    write_copy(tmp_path / "c", batches(0, 3))
    for name, (node, directory) in ids.items():
        (tmp_path / name / "meta.properties").write_text(
            f"version=1\ncluster.id={'K' * 22}\nnode.id={node}\ndirectory.id={directory}\n"
        )
    assert diff(*(tmp_path / name for name in "abc"), topics="t") == []
    missing = native_log.diff(*(tmp_path / name for name in "abc"), topics="u").read_all().to_pylist()
    assert [(row["kind"], row["path"]) for row in missing] == [("missing", str(tmp_path / "c"))]


def test_copies_of_a_brokers_log_are_equal(tmp_path: Path) -> None:
    source = ORDERS / "corrupt-undamaged/data"
    shutil.copytree(source, tmp_path / "copy")
    assert diff(source, tmp_path / "copy") == []
    assert {kind for kind, *_ in diff(source, ORDERS / "corrupt-bad-crc/data")} == {"missing", "damaged"}


def test_one_directory_is_rejected(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", batches(0, 3))
    with pytest.raises(ValueError, match="at least two directories"):
        native_log.diff(tmp_path / "a")
