"""Kill processes at each system call that changes a file.

Appending, rolling, closing, creating and recovering leave the old state or the new one, at the latest after
recovery.
"""

from __future__ import annotations

import mmap
import shutil
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import native_log
from native_log import LogDir
from native_log.log.verification import verify_log
from tests.builders.batches import batch
from tests.builders.logs import write_log
from tests.killing import survives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONFIG = {"segment.bytes": 700, "index.interval.bytes": 1}
APPENDED = 10


class Parts:
    """A counter of completed steps, which a process shares with its parent."""

    def __init__(self) -> None:
        self._count = mmap.mmap(-1, 1)

    def __call__(self) -> None:
        self._count[0] += 1

    @property
    def count(self) -> int:
        return self._count[0]


def at_every_step(
    work: Callable[[Callable[[], None]], None], fresh: Callable[[], None]
) -> Iterator[tuple[int, int]]:
    """Run `work` and kill it at each step; yield (step, parts done). `fresh` is called before each run."""
    for step in count():
        fresh()
        parts = Parts()
        if survives(lambda done=parts: work(done), step):  # type: ignore[misc]
            return
        yield step, parts.count


def numbers(first: int) -> pa.RecordBatch:
    return pa.record_batch({"value": [b"%d" % n for n in range(first, first + APPENDED)]})


def values(logs: Path) -> list[int]:
    log = LogDir(logs).partition("t", 0)
    return [int(value) for batch in log.read(columns=["value"]) for value in batch.column(0).to_pylist()]


def contents(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def problems(logs: Path) -> list[str]:
    return [str(problem) for problem in verify_log(LogDir(logs).partition("t", 0))]


@pytest.mark.parametrize("before", [0, 3])
def test_an_append_is_complete_or_absent(tmp_path: Path, before: int) -> None:
    """Each append is a single batch. Completed appends must exist, because the machine does not crash."""
    start, logs = tmp_path / "start", tmp_path / "logs"
    with LogDir.create(start) as log_dir:
        log_dir.create_topic("t")
        log = log_dir.partition("t", 0, config=CONFIG)
        for turn in range(before):
            log.append(numbers(APPENDED * turn))

    def fresh() -> None:
        shutil.rmtree(logs, ignore_errors=True)
        shutil.copytree(start, logs)

    def work(done: Callable[[], None]) -> None:
        with LogDir(logs).partition("t", 0, config=CONFIG) as log:
            for turn in range(before, before + 5):
                log.append(numbers(APPENDED * turn))
                done()

    steps = 0
    for step, parts in at_every_step(work, fresh):
        steps = step
        at_once = values(logs)
        (recovered,) = native_log.recover(logs).to_pylist()
        assert recovered["status"] != "failed"
        rows = values(logs)
        assert rows == at_once, step
        assert rows == list(range(len(rows))), step
        assert len(rows) // APPENDED - before in (parts, parts + 1), step
        assert problems(logs) == [], step
        assert (logs / ".kafka_cleanshutdown").exists()
        with LogDir(logs).partition("t", 0, config=CONFIG) as log:
            assert log.append(numbers(len(rows))) == len(rows)
        assert values(logs) == list(range(len(rows) + APPENDED))
    assert steps > 30


def test_a_partly_created_log_directory_can_be_created_again(tmp_path: Path) -> None:
    logs = tmp_path / "logs"

    def work(done: Callable[[], None]) -> None:
        LogDir.create(logs)
        done()

    for step, parts in at_every_step(work, lambda: shutil.rmtree(logs, ignore_errors=True)):
        if parts == 0 and not (logs / "meta.properties").exists():
            LogDir.create(logs)
        log_dir = LogDir(logs, allow_empty=True)
        assert log_dir.meta_properties is not None, step
        assert log_dir.directories[0].clean_shutdown


def test_a_topic_is_complete_or_can_be_created_again(tmp_path: Path) -> None:
    logs = tmp_path / "logs"

    def fresh() -> None:
        shutil.rmtree(logs, ignore_errors=True)
        LogDir.create(logs)

    def work(done: Callable[[], None]) -> None:
        LogDir(logs, allow_empty=True).create_topic("t")
        done()

    steps = 0
    for step, parts in at_every_step(work, fresh):
        steps = step
        assert "failed" not in native_log.recover(logs).column("status").to_pylist()
        log_dir = LogDir(logs, allow_empty=True)
        if "t" not in log_dir.topics():
            assert parts == 0
            log_dir.create_topic("t")
        with log_dir.partition("t", 0) as log:
            assert log.topic_id is not None, step
            assert log.append(numbers(0)) == 0
        assert values(logs) == list(range(APPENDED))
    assert steps > 10


def damaged(path: Path) -> None:
    """Write a log with a damaged second segment, and with all kinds of files that crashes leave."""
    log = write_log(
        path / "t-0",
        {
            0: [batch(0, leader_epoch=0), batch(3, leader_epoch=0)],
            6: [batch(6, leader_epoch=1, producer_id=5, producer_epoch=0, base_sequence=0),
                batch(9, crc=1), batch(12)],
            15: [batch(15)],
            18: [batch(18)],
        },
    )  # fmt: skip
    for base in (15, 18):
        for kind in ("index", "timeindex", "snapshot"):
            (log / f"{base:020d}.{kind}").write_bytes(b"x" * 9)
    (log / f"{30:020d}.index").write_bytes(b"")
    (log / f"{18:020d}.log.cleaned").write_bytes(b"cut short")
    (log / f"{12:020d}.log.deleted").write_bytes(batch(12))
    (log / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 6\n7 15\n")
    for name in ("replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        (path / name).write_text("0\n1\nt 0 18\n")
    (path / ".kafka_cleanshutdown").touch()


def test_a_killed_recovery_is_completed_by_the_next(tmp_path: Path) -> None:
    logs = tmp_path / "logs"

    def fresh() -> None:
        shutil.rmtree(logs, ignore_errors=True)
        damaged(logs)

    def work(done: Callable[[], None]) -> None:
        native_log.recover(logs, from_start=True, threads=1)
        done()

    fresh()
    native_log.recover(logs, from_start=True)
    expected = contents(logs)
    assert (logs / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 9\n"
    assert (logs / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 9\n"
    assert (logs / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 6\n"
    assert (logs / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 6\n"
    assert {name for name in expected if "t-0" in name} == {
        *(f"t-0/{base:020d}.{kind}" for base in (0, 6) for kind in ("log", "index", "timeindex")),
        f"t-0/{6:020d}.snapshot", f"t-0/{9:020d}.snapshot", "t-0/leader-epoch-checkpoint",
    }  # fmt: skip
    steps = 0
    for step, _ in at_every_step(work, fresh):
        steps = step
        native_log.recover(logs, from_start=True)
        assert contents(logs) == expected, step
    assert steps > 30


def test_a_killed_recovery_of_a_segment_without_its_index_is_completed_by_the_next(tmp_path: Path) -> None:
    """The segment is truncated and later ones are kept. If its index existed, they would be removed."""
    logs = tmp_path / "logs"

    def fresh() -> None:
        shutil.rmtree(logs, ignore_errors=True)
        torn = batch(3)[:-1]
        log = write_log(logs / "t-0", {0: [batch(0), torn], 6: [batch(6)], 9: [batch(9)]})
        (log / f"{0:020d}.index").unlink()

    def work(done: Callable[[], None]) -> None:
        native_log.recover(logs, from_start=True, threads=1)
        done()

    for step, _ in at_every_step(work, fresh):
        native_log.recover(logs, from_start=True)
        sizes = {int(path.stem): path.stat().st_size for path in (logs / "t-0").glob("*.log")}
        assert sizes == {0: len(batch(0)), 6: len(batch(6)), 9: len(batch(9))}, step


def test_reindexing_leaves_valid_indexes(tmp_path: Path) -> None:
    logs = tmp_path / "logs"

    def fresh() -> None:
        shutil.rmtree(logs, ignore_errors=True)
        with LogDir.create(logs) as log_dir:
            log_dir.create_topic("t")
            log_dir.partition("t", 0, config=CONFIG).append(
                pa.record_batch({"value": [b"%d" % n for n in range(100)]}), batch_size=200
            )

    def work(done: Callable[[], None]) -> None:
        native_log.reindex(logs, config={"index.interval.bytes": 1}, threads=1)
        done()

    for step, _ in at_every_step(work, fresh):
        assert problems(logs) == [], step
