"""Cleaning that is killed at each of its changes, that meets damage, or someone else."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log.checkpoints.offset_checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from native_log.checkpoints.write_session import WriteSession
from native_log.records import scan
from native_log.segment.files import parse_file_name
from tests.killing import no_file_grows_beyond, survives

from .support import files, logs, round_id, rounds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROUNDS = {round_id(one): one for one in rounds()}
KILLED = {
    "kafka-4.1-compact-tomb-keep-round2": 3,
    "kafka-4.1-compact-idem-round2": 4,
    "kafka-4.1-compact-txn-round2": 17,
}
"""Which rounds, and each how manieth change: the longer ones do not differ in kind."""


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


def records(data: Path, topic: str) -> dict[int, tuple[Any, ...]]:
    names = ["offset", "key", "value"]
    log = native_log.LogDir(data).partition(topic, 0)
    found = log.read(columns=names, isolation_level="read_committed")
    rows = (row for batch in found for row in batch.to_pylist())
    return {row["offset"]: (row["key"], row["value"]) for row in rows}


def newest(rows: dict[int, tuple[Any, ...]]) -> dict[Any, Any]:
    """What the records come to, one after the other."""
    found = dict(rows.values())
    return {key: value for key, value in found.items() if value is not None}


def leftovers(data: Path) -> list[str]:
    found = ((path, parse_file_name(path.name)) for path in data.rglob("*"))
    return [str(path) for path, file in found if file is not None and file.state]


@pytest.mark.parametrize(("name", "every"), KILLED.items())
def test_killed_at_any_change_it_leaves_before_or_after_and_the_next_run_finishes(
    name: str, every: int, tmp_path: Path
) -> None:
    one = ROUNDS[name]
    run = partial(
        native_log.compact,
        topics=one.topic,
        config={**one.config, "log.cleaner.threads": 1},
        now_ms=one.now_ms,
    )
    before = records(one.copy(tmp_path / "before"), one.topic)
    run(one.copy(tmp_path / "after"))
    after = records(tmp_path / "after", one.topic)

    for step in itertools.count(0, every):
        data = one.copy(tmp_path / "data")
        came_through = survives(partial(run, data), step)

        found = records(data, one.topic)
        assert after.items() <= found.items() <= before.items()
        assert newest(found) == newest(before)
        run(data)
        assert records(data, one.topic) == after
        assert leftovers(data) == []
        if came_through:
            break
        shutil.rmtree(data)
    assert step > 30
    assert files(data) == files(tmp_path / "after")


@pytest.mark.parametrize("name", ROUNDS)
def test_a_damaged_batch_stops_its_partition_alone(name: str, tmp_path: Path) -> None:
    one = ROUNDS[name]
    data = one.copy(tmp_path / "data")
    shutil.copytree(data / f"{one.topic}-0", data / f"{one.topic}-1", copy_function=shutil.copy2)
    checkpoint = data / CLEANER_OFFSET_CHECKPOINT
    offsets = read_offset_checkpoint(checkpoint)
    both = {(one.topic, partition): offset for offset in offsets.values() for partition in (0, 1)}
    write_offset_checkpoint(checkpoint, both)
    logs = sorted(path for path in (data / f"{one.topic}-0").glob("*.log") if path.stat().st_size)
    closed = logs[:-1]  # no cleaning touches the active one
    for log in {closed[0], closed[len(closed) // 2], closed[-1]}:
        whole = log.read_bytes()
        for position in _damaging_positions(whole):
            content = bytearray(whole)
            content[position] ^= 0x10
            log.write_bytes(content)
            held = files(data / f"{one.topic}-0")
            other = tmp_path / "other"
            shutil.copytree(data, other, copy_function=shutil.copy2)

            told = native_log.compact(other, one.topic, config=one.config, now_ms=one.now_ms).to_pylist()

            assert [row["status"] for row in told] == ["failed", "cleaned"], (log, position)
            assert f"{log.name}, position" in told[0]["reason"]
            assert files(other / f"{one.topic}-0") == held
            shutil.rmtree(other)
            log.write_bytes(whole)


def _damaging_positions(log: bytes) -> list[int]:
    """Of the first, a middle and the last batch: in the offset, the size, the magic, behind the CRC, the end.
    (The leader epoch may be any.)"""
    rows = scan(log).batches.select(["position", "sizeInBytes"]).to_pylist()
    chosen = {row["position"]: row["sizeInBytes"] for row in (rows[0], rows[len(rows) // 2], rows[-1])}
    return [at + within for at, size in chosen.items() for within in (0, 9, 16, 22, size - 1)]


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    one = next(iter(ROUNDS.values()))
    data = one.copy(tmp_path / "data")
    before = files(data)
    script = (
        "import sys; from pathlib import Path; from native_log.checkpoints.lock import LogDirLock\n"
        "with LogDirLock(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script, str(data)], **pipes) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(native_log.LogDirInUseError, match=str(holder.pid)):
            native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms)
        assert files(data) == before
        told = native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms, dry_run=True)
        assert told.column("status").to_pylist() == ["cleaned"]
        holder.communicate()


def test_an_interrupt_ends_all_threads_and_the_next_run_finishes(tmp_path: Path) -> None:
    one = ROUNDS["kafka-4.1-compact-txn-round2"]
    data = one.copy(tmp_path / "data")
    for number in range(1, 6):
        shutil.copytree(data / f"{one.topic}-0", data / f"{one.topic}-{number}", copy_function=shutil.copy2)
    whole = shutil.copytree(data, tmp_path / "whole", copy_function=shutil.copy2)
    native_log.compact(whole, one.topic, config=one.config, now_ms=one.now_ms)
    told = 0

    def interrupt(*_: int) -> None:
        nonlocal told
        told += 1
        if told >= 9:
            raise KeyboardInterrupt

    config = {**one.config, "log.cleaner.threads": 2}
    with pytest.raises(KeyboardInterrupt):
        native_log.compact(data, one.topic, config=config, now_ms=one.now_ms, on_progress=interrupt)
    native_log.compact(data, one.topic, config=config, now_ms=one.now_ms)
    for number in range(6):
        assert leftovers(data) == []
        partition = f"{one.topic}-{number}"
        assert logs(data / partition).keys() <= logs(whole / partition).keys()
    assert records(data, one.topic) == records(whole, one.topic)


def test_a_log_that_this_process_appends_to_is_left_alone(tmp_path: Path) -> None:
    one = next(iter(ROUNDS.values()))
    data = one.copy(tmp_path / "data")
    clean: list[Callable[[], Any]] = [
        partial(native_log.compact, data, one.topic, config=one.config, now_ms=one.now_ms),
        partial(native_log.retain, data, one.topic, config={"retention.ms": 1}),
        partial(native_log.delete_records, data, {(one.topic, 0): -1}),
        partial(native_log.erase, data, keys=["k1"]),
    ]
    log_dir = native_log.LogDir(data)
    log, record = log_dir.partition(one.topic, 0), pa.record_batch({"key": ["k"], "value": ["v"]})
    log.append(record)
    before = files(data)
    for call in clean:
        with pytest.raises(native_log.LogDirInUseError, match="this very process"):
            call()
    assert files(data) == before
    log.close()
    for call in clean:
        call()
    with WriteSession.exclusive(data), pytest.raises(native_log.LogDirInUseError, match="this very process"):
        native_log.LogDir(data).partition(one.topic, 0).append(
            pa.record_batch({"key": ["k"], "value": ["v"]})
        )


def test_rounds_follow_one_another_as_with_the_broker(tmp_path: Path) -> None:
    """A second round right behind the first, though nothing is dirty, changes no record."""
    for one in (ROUNDS[name] for name in KILLED):
        data = one.copy(tmp_path / round_id(one))
        native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms)
        first = records(data, one.topic)
        (data / CLEANER_OFFSET_CHECKPOINT).unlink()  # all is dirty again
        (row,) = native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms).to_pylist()
        assert row["status"] == "cleaned"
        assert records(data, one.topic) == first


@pytest.mark.parametrize("room_bytes", [100, 1500, 3000])
def test_a_full_disk_is_told_of_and_nothing_is_left_on_it(room_bytes: int, tmp_path: Path) -> None:
    one = ROUNDS["kafka-4.1-compact-codecs-round1"]
    data = one.copy(tmp_path / "data")
    config = one.config | {"segment.bytes": 4000, "log.cleaner.threads": 1}
    before = records(data, one.topic)

    with no_file_grows_beyond(room_bytes):
        (row,) = native_log.compact(data, one.topic, config=config, now_ms=one.now_ms).to_pylist()

    assert row["status"] == "failed"
    assert f"{data}/{one.topic}-0/" in row["reason"]
    assert leftovers(data) == []
    left = records(data, one.topic)
    assert left.items() <= before.items()
    assert newest(left) == newest(before)
    (row,) = native_log.compact(data, one.topic, config=config, now_ms=one.now_ms).to_pylist()
    assert row["status"] == "cleaned"
