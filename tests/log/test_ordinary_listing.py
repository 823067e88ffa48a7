"""The kernel lists ordinary directories just as Python does, and leaves all others to Python."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from native_log.log.listing import LogListing, list_log, list_with_tail
from native_log.log.ordinary_listing import list_ahead, list_ordinary
from native_log.records import DEFAULT_MAX_BATCH_BYTES, IMPLEMENTATION
from native_log.storage import LOCAL, Folder
from tests.builders.batches import Rec, v2
from tests.builders.copies import Batch, batches, write_copy
from tests.builders.golden import DATA
from tests.builders.legacy import message

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.log.ordinary_listing import OrdinaryLog
    from native_log.log.tail import Tail

pytestmark = pytest.mark.skipif(IMPLEMENTATION != "kernel", reason="needs the kernel")

PARTITIONS = sorted({log.parent for log in DATA.rglob("0*.log") if log.stem.isdigit()})
OLD_NS = 1_700_000_000_123_456_789


class OtherLocal(type(LOCAL)):  # type: ignore[misc]
    """The local file system, but not as the storage that the kernel reads."""


def ordinary(directory: Path) -> OrdinaryLog | None:
    return list_ordinary(Folder(str(directory)), DEFAULT_MAX_BATCH_BYTES)


def carefully(directory: Path) -> tuple[LogListing, Tail]:
    """List a directory in Python."""
    folder = Folder(str(directory), OtherLocal())
    listing, tail = list_with_tail(folder, False, DEFAULT_MAX_BATCH_BYTES)
    here = Folder(str(directory))
    return replace(listing, segments=tuple(replace(each, folder=here) for each in listing.segments)), tail


def set_old(directory: Path) -> Path:
    """Make the directory look as if it had not changed for a long time."""
    os.utime(directory, ns=(OLD_NS, OLD_NS))
    return directory


def write_ordinary(folder: Path) -> Path:
    directory = write_copy(folder, batches(0, 9), rolls=[9, 18])
    (directory / f"{18:020}.snapshot").touch()
    (directory / f"{9:020}.snapshot").touch()
    (directory / f"{9:020}.timeindex").touch()
    (directory / f"{9:020}.txnindex").touch()
    return set_old(directory)


@pytest.mark.parametrize("directory", PARTITIONS, ids=lambda path: str(path.relative_to(DATA)))
def test_directories_that_brokers_wrote(directory: Path, tmp_path: Path) -> None:
    copy = set_old(Path(shutil.copytree(directory, tmp_path / directory.name)))
    found = ordinary(copy)
    listing, tail = carefully(copy)
    if found is None:
        names = [name for name in os.listdir(copy) if name[0].isdigit()]  # noqa: PTH208
        is_left_over = any(name.endswith((".swap", ".cleaned", ".deleted")) for name in names)
        assert is_left_over or listing.without_log
        return
    assert LogListing(found.segments, found.snapshots) == listing
    if found.tail is not None:
        # Python begins at the last entry of the index, and so does not know all timestamps.
        known = tail.segment_timestamp_ms
        assert replace(found.tail, segment_timestamp_ms=known) == tail
        assert known in (None, found.tail.segment_timestamp_ms)


def test_most_directories_are_ordinary() -> None:
    """Otherwise the test above would compare nothing."""
    assert sum(ordinary(directory) is not None for directory in PARTITIONS) > len(PARTITIONS) * 0.8


def test_segments_snapshots_and_the_end(tmp_path: Path) -> None:
    directory = write_ordinary(tmp_path)
    found = ordinary(directory)
    assert found is not None
    assert [(each.base_offset, each.end_offset) for each in found.segments][:2] == [(0, 9), (9, 18)]
    assert found.segments[1].time_index == f"{9:020}.timeindex"
    assert found.segments[1].transaction_index == f"{9:020}.txnindex"
    assert found.segments[2].time_index is None
    assert found.snapshots == ((18, f"{18:020}.snapshot"), (9, f"{9:020}.snapshot"))
    assert (LogListing(found.segments, found.snapshots), found.tail) == carefully(directory)
    assert found.tail is not None
    assert found.tail.next_offset == 27


def cut(directory: Path) -> None:
    log = directory / f"{18:020}.log"
    log.write_bytes(log.read_bytes()[:-1])


def flip(directory: Path) -> None:
    log = directory / f"{18:020}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


def append_old_message(directory: Path) -> None:
    with (directory / f"{18:020}.log").open("ab") as log:
        log.write(message(1, 27))


def append_out_of_order(directory: Path) -> None:
    with (directory / f"{18:020}.log").open("ab") as log:
        log.write(Batch(18).data)


def append_far_offset(directory: Path) -> None:
    with (directory / f"{18:020}.log").open("ab") as log:
        log.write(v2([Rec()], 18 + 2**31))


def empty(directory: Path) -> None:
    (directory / f"{18:020}.log").write_bytes(b"")


def grow(directory: Path) -> None:
    with (directory / f"{18:020}.log").open("ab") as log:
        log.write(b"".join(Batch(offset).data for offset in range(27, 27 + 1500, 3)))


@pytest.mark.parametrize(
    "change",
    [cut, flip, append_old_message, append_out_of_order, append_far_offset, empty, grow],
    ids=lambda change: change.__name__,
)
def test_python_finds_any_other_end(tmp_path: Path, change: Callable[[Path], None]) -> None:
    directory = write_ordinary(tmp_path)
    change(directory)
    set_old(directory)
    found = ordinary(directory)
    assert found is not None
    assert found.tail is None
    assert list_with_tail(Folder(str(directory)), False, DEFAULT_MAX_BATCH_BYTES) == carefully(directory)


def link(directory: Path) -> None:
    target = directory / f"{9:020}.log"
    shutil.move(target, directory.parent / "elsewhere")
    target.symlink_to(directory.parent / "elsewhere")


@pytest.mark.parametrize(
    "change",
    [
        link,
        *(
            lambda directory, name=name: (directory / name).touch()
            for name in (f"{0:020}.log.swap", f"{9:020}.index.cleaned", f"{0:020}.log.deleted")
        ),
        lambda directory: shutil.move(directory / f"{9:020}.log", directory / "9.log"),
        lambda directory: (directory / f"{30:020}.index").mkdir(),
        lambda directory: os.truncate(directory / f"{9:020}.log", 1 << 31),
    ],
    ids=["link", "swap", "cleaned", "deleted", "few-digits", "folder", "too-large"],
)
def test_python_lists_any_other_directory(tmp_path: Path, change: Callable[[Path], object]) -> None:
    directory = write_ordinary(tmp_path)
    change(directory)
    assert ordinary(set_old(directory)) is None


def test_a_directory_that_has_just_changed_is_read_again_by_python(tmp_path: Path) -> None:
    directory = write_ordinary(tmp_path)
    directory.touch()
    os.utime(directory)
    assert ordinary(directory) is None
    assert [each.base_offset for each in list_log(str(directory), DEFAULT_MAX_BATCH_BYTES).segments] == [
        0,
        9,
        18,
    ]


def test_many_directories_are_listed_in_their_order(tmp_path: Path) -> None:
    directories = [write_ordinary(tmp_path / str(number)) for number in range(5)]
    shutil.rmtree(directories[1])
    (directories[2] / f"{9:020}.log").unlink()  # its index is there
    for kind in ("log", "index"):
        (directories[3] / f"{18:020}.{kind}").unlink()
    for directory in directories[2:4]:
        set_old(directory)
    many = 40 * directories  # several groups
    found = list(list_ahead(list(map(str, many)), DEFAULT_MAX_BATCH_BYTES))
    assert found == list(map(ordinary, many))
    assert [len(each.segments) if each else None for each in found[:5]] == [3, None, None, 2, 3]
    assert list(list_ahead([], DEFAULT_MAX_BATCH_BYTES)) == []


def test_what_is_no_directory(tmp_path: Path) -> None:
    assert ordinary(tmp_path / "missing") is None
    (tmp_path / "file").touch()
    assert ordinary(tmp_path / "file") is None
