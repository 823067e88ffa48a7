"""Compaction that is killed at each change of a file, or that finds damage or another writer."""

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
from tests.builders.compaction_rounds import broker_rounds, logs, round_id
from tests.contents import files
from tests.killing import no_file_grows_beyond, survives

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROUNDS = {round_id(case): case for case in broker_rounds()}
KILL_STEPS = {
    "kafka-4.1-compact-tomb-keep-round2": 3,
    "kafka-4.1-compact-idem-round2": 4,
    "kafka-4.1-compact-txn-round2": 17,
}
"""Rounds to kill, and the distance between the changes at which they are killed. Every change of the long
rounds would take too long and find nothing new."""


def records(data: Path, topic: str) -> dict[int, tuple[Any, ...]]:
    names = ["offset", "key", "value"]
    log = native_log.LogDir(data).partition(topic, 0)
    batches = log.read(columns=names, isolation_level="read_committed")
    rows = (row for batch in batches for row in batch.to_pylist())
    return {row["offset"]: (row["key"], row["value"]) for row in rows}


def newest(rows: dict[int, tuple[Any, ...]]) -> dict[Any, Any]:
    """Return the last value of each key, without deleted keys."""
    values = dict(rows.values())
    return {key: value for key, value in values.items() if value is not None}


def leftovers(data: Path) -> list[str]:
    files = ((path, parse_file_name(path.name)) for path in data.rglob("*"))
    return [str(path) for path, file in files if file is not None and file.state]


@pytest.mark.parametrize(("name", "every"), KILL_STEPS.items())
def test_a_kill_at_any_change_leaves_a_readable_log_and_the_next_run_finishes(
    name: str, every: int, tmp_path: Path
) -> None:
    case = ROUNDS[name]
    run = partial(
        native_log.compact,
        topics=case.topic,
        config={**case.config, "log.cleaner.threads": 1},
        now_ms=case.now_ms,
    )
    before = records(case.copy(tmp_path / "before"), case.topic)
    run(case.copy(tmp_path / "after"))
    after = records(tmp_path / "after", case.topic)

    for step in itertools.count(0, every):
        data = case.copy(tmp_path / "data")
        completed = survives(partial(run, data), step)

        current = records(data, case.topic)
        assert after.items() <= current.items() <= before.items()
        assert newest(current) == newest(before)
        run(data)
        assert records(data, case.topic) == after
        assert leftovers(data) == []
        if completed:
            break
        shutil.rmtree(data)
    assert step > 30
    assert files(data) == files(tmp_path / "after")


@pytest.mark.parametrize("name", ROUNDS)
def test_a_damaged_batch_fails_only_its_partition(name: str, tmp_path: Path) -> None:
    """Partition 0 is undamaged; each of the others has one damaged byte."""
    case = ROUNDS[name]
    data = case.copy(tmp_path / "data")
    whole = data / f"{case.topic}-0"
    logs = sorted(path for path in whole.glob("*.log") if path.stat().st_size)
    closed = logs[:-1]  # the active segment is never compacted
    places = [
        (log.name, position)
        for log in sorted({closed[0], closed[len(closed) // 2], closed[-1]})
        for position in _positions_to_damage(log.read_bytes())
    ]
    for partition, (file, position) in enumerate(places, 1):
        copy = data / f"{case.topic}-{partition}"
        shutil.copytree(whole, copy, copy_function=shutil.copy2)
        content = bytearray((copy / file).read_bytes())
        content[position] ^= 0x10
        (copy / file).write_bytes(content)
    checkpoint = data / CLEANER_OFFSET_CHECKPOINT
    offsets = read_offset_checkpoint(checkpoint).values()
    write_offset_checkpoint(
        checkpoint,
        {(case.topic, partition): offset for offset in offsets for partition in range(len(places) + 1)},
    )
    before = files(data)

    rows = native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms).to_pylist()

    by_partition = {row["partition"]: row for row in rows}
    assert by_partition[0]["status"] == "cleaned"
    after = files(data)
    for partition, (file, position) in enumerate(places, 1):
        row = by_partition[partition]
        assert row["status"] == "failed", (file, position)
        assert f"{case.topic}-{partition}/{file}, position" in row["reason"], (file, position)
    assert _of_others(after, case.topic) == _of_others(before, case.topic)


def _of_others(contents: dict[str, bytes], topic: str) -> dict[str, bytes]:
    """Return the files of all partitions but partition 0."""
    return {
        name: content
        for name, content in contents.items()
        if name.startswith(f"{topic}-") and not name.startswith(f"{topic}-0/")
    }


def _positions_to_damage(log: bytes) -> list[int]:
    """Return positions in the first, a middle and the last batch.

    In each batch these are in the offset, the size, the magic, after the CRC, and at the end. (The leader
    epoch may have any value.)
    """
    rows = scan(log).batches.select(["position", "sizeInBytes"]).to_pylist()
    batches = {row["position"]: row["sizeInBytes"] for row in (rows[0], rows[len(rows) // 2], rows[-1])}
    return [start + byte for start, size in batches.items() for byte in (0, 9, 16, 22, size - 1)]


def test_a_directory_in_use_is_rejected(tmp_path: Path) -> None:
    case = next(iter(ROUNDS.values()))
    data = case.copy(tmp_path / "data")
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
            native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms)
        assert files(data) == before
        result = native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms, dry_run=True)
        assert result.column("status").to_pylist() == ["would be cleaned"]
        holder.communicate()


def test_an_interrupt_stops_all_threads_and_the_next_run_finishes(tmp_path: Path) -> None:
    case = ROUNDS["kafka-4.1-compact-txn-round2"]
    data = case.copy(tmp_path / "data")
    for number in range(1, 6):
        shutil.copytree(data / f"{case.topic}-0", data / f"{case.topic}-{number}", copy_function=shutil.copy2)
    whole = shutil.copytree(data, tmp_path / "whole", copy_function=shutil.copy2)
    native_log.compact(whole, case.topic, config=case.config, now_ms=case.now_ms)
    reports = 0

    def interrupt(*_: int) -> None:
        nonlocal reports
        reports += 1
        if reports >= 9:
            raise KeyboardInterrupt

    config = {**case.config, "log.cleaner.threads": 2}
    with pytest.raises(KeyboardInterrupt):
        native_log.compact(data, case.topic, config=config, now_ms=case.now_ms, on_progress=interrupt)
    native_log.compact(data, case.topic, config=config, now_ms=case.now_ms)
    for number in range(6):
        assert leftovers(data) == []
        partition = f"{case.topic}-{number}"
        assert logs(data / partition).keys() <= logs(whole / partition).keys()
    assert records(data, case.topic) == records(whole, case.topic)


def test_a_log_to_which_this_process_appends_is_rejected(tmp_path: Path) -> None:
    case = next(iter(ROUNDS.values()))
    data = case.copy(tmp_path / "data")
    calls: list[Callable[[], Any]] = [
        partial(native_log.compact, data, case.topic, config=case.config, now_ms=case.now_ms),
        partial(native_log.retain, data, case.topic, config={"retention.ms": 1}),
        partial(native_log.delete_records, data, {(case.topic, 0): -1}),
        partial(native_log.erase, data, keys=["k1"]),
    ]
    log_dir = native_log.LogDir(data)
    log, record = log_dir.partition(case.topic, 0), pa.record_batch({"key": ["k"], "value": ["v"]})
    log.append(record)
    before = files(data)
    for call in calls:
        with pytest.raises(native_log.LogDirInUseError, match="this very process"):
            call()
    assert files(data) == before
    log.close()
    for call in calls:
        call()
    with WriteSession.exclusive(data), pytest.raises(native_log.LogDirInUseError, match="this very process"):
        native_log.LogDir(data).partition(case.topic, 0).append(
            pa.record_batch({"key": ["k"], "value": ["v"]})
        )


def test_a_second_round_changes_no_record(tmp_path: Path) -> None:
    """Although the whole log is dirty again, because its checkpoint was removed."""
    for case in (ROUNDS[name] for name in KILL_STEPS):
        data = case.copy(tmp_path / round_id(case))
        native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms)
        first = records(data, case.topic)
        (data / CLEANER_OFFSET_CHECKPOINT).unlink()
        (row,) = native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms).to_pylist()
        assert row["status"] == "cleaned"
        assert records(data, case.topic) == first


@pytest.mark.parametrize("room_bytes", [100, 1500, 3000])
def test_a_full_disk_is_reported_and_no_files_are_left(room_bytes: int, tmp_path: Path) -> None:
    case = ROUNDS["kafka-4.1-compact-codecs-round1"]
    data = case.copy(tmp_path / "data")
    config = case.config | {"segment.bytes": 4000, "log.cleaner.threads": 1}
    before = records(data, case.topic)

    with no_file_grows_beyond(room_bytes):
        (row,) = native_log.compact(data, case.topic, config=config, now_ms=case.now_ms).to_pylist()

    assert row["status"] == "failed"
    assert f"{data}/{case.topic}-0/" in row["reason"]
    assert leftovers(data) == []
    current = records(data, case.topic)
    assert current.items() <= before.items()
    assert newest(current) == newest(before)
    (row,) = native_log.compact(data, case.topic, config=config, now_ms=case.now_ms).to_pylist()
    assert row["status"] == "cleaned"
