"""A commit that is killed, or that the disk refuses, at each of its changes to files."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest

from native_log import LogDir, recover
from native_log.logdir.unfinished import UNFINISHED_WRITE
from native_log.logdir.verification import verify_log
from native_log.publish import commit as publishing
from native_log.publish import offsets
from native_log.publish.job import WriteJob
from native_log.records import reference

from .support import NOW_MS, expected, records, stage, tree, values, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = {"segment.bytes": "1800", "index.interval.bytes": "300"}
CHANGES = ("pwrite", "ftruncate", "fsync", "rename", "replace", "unlink", "mkdir", "rmdir", "copy_file_range")


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Two partitions of a topic, several segments each."""
    data = tmp_path / "before"
    LogDir.create(data)
    write(data, 0, 400, config=CONFIG)
    return data


def two_topics(data: Path) -> None:
    """A job that goes on with topic t (segments of its own, and copies) and makes topic u."""
    job = WriteJob.begin(data)
    staged = []
    for task in range(2):
        start = 1000 * (task + 1)
        rows = [(p, records(start + 100 * p, start + 100 * p + n)) for p, n in ((0, 100), (1, 5))]
        staged += stage(job, rows, attempt=str(task), config=CONFIG)
        staged += stage(job, rows, attempt=str(task), config=CONFIG, topic="u")
    publishing.commit(job, staged, CONFIG, 2, now_ms=NOW_MS, stream=("query", 7))


WRITTEN = expected((1000, 1100), (1100, 1105), (2000, 2100), (2100, 2105))


class EndOfChangesError(Exception):
    """There are fewer."""


def interrupted(work: Callable[[], None], step: int, act: Callable[[], Any]) -> None:
    """Run `work`, and `act` in the place of its `step`-th change to files.

    Raises what `work` raises; EndOfChangesError if it has no change of that number.
    """
    done = itertools.count()

    def counted(real: Any) -> Any:
        def change(*args: Any, **kwargs: Any) -> Any:
            return act() if next(done) == step else real(*args, **kwargs)

        return change

    with pytest.MonkeyPatch.context() as patch:
        # The kernel's calls of the system cannot be counted, its twin's can.
        patch.setattr(offsets, "write_prefixes", reference.write_prefixes)
        for name in CHANGES:
            patch.setattr(os, name, counted(getattr(os, name)))
        work()
    if next(done) <= step:
        raise EndOfChangesError


def killed(work: Callable[[], None], step: int) -> bool:
    """Run `work` in a process that is killed before its `step`-th change; whether it was."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(EndOfChangesError):
            interrupted(work, step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def whole(data: Path) -> None:
    logs = LogDir(data)
    for topic, partitions in logs.topics().items():
        for partition in partitions:
            assert list(verify_log(logs.partition(topic, partition))) == []


def as_a_broker_finds_it(data: Path, copy: Path) -> list[int]:
    """The end of topic t's partitions as a broker makes of the directory that is started on it."""
    shutil.copytree(data, copy)
    (copy / UNFINISHED_WRITE).unlink()
    assert all(one.error is None for one in recover(copy))
    logs = LogDir(copy)
    ends = [logs.partition("t", number).log_end_offset for number in (0, 1)]
    whole(copy)
    shutil.rmtree(copy)
    return ends


def leftovers(data: Path) -> list[str]:
    return [name for name in tree(data) if "kafkalog" in name and "-stream-" not in name]


def test_killed_at_any_change(before: Path, tmp_path: Path) -> None:
    seen_after = 0
    data = tmp_path / "data"
    for step in itertools.count():
        shutil.copytree(before, data)
        was_killed = killed(lambda: two_topics(data), step)

        # Readers see all of it or nothing.
        is_after = "u" in LogDir(data).topics()
        assert values(data) == sorted(expected((0, 400)) + WRITTEN * is_after), step
        assert values(data, "u") == sorted(WRITTEN * is_after), step
        seen_after += is_after
        if (data / UNFINISHED_WRITE).exists():
            first, second = as_a_broker_finds_it(data, tmp_path / "copy")
            assert first in (200, 400) and second in (200, 210), step

        # The next one to write tidies up, and the batch of the stream is written once.
        two_topics(data)
        assert values(data) == sorted(expected((0, 400)) + WRITTEN), step
        assert values(data, "u") == sorted(WRITTEN), step
        whole(data)
        assert leftovers(data) == [], step
        shutil.rmtree(data)
        if not was_killed:
            break
    assert step > 100
    assert seen_after > 1


def test_a_disk_that_is_full_at_any_change(before: Path, tmp_path: Path) -> None:
    untouched, data = tree(before), tmp_path / "data"
    refused = 0

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for step in itertools.count():
        if not data.exists():
            shutil.copytree(before, data)
        try:
            interrupted(lambda: two_topics(data), step, full)
        except EndOfChangesError:
            break
        except OSError as error:
            assert error.errno == errno.ENOSPC
            if values(data) == expected((0, 400)):
                assert "u" not in LogDir(data).topics(), step
                found = tree(data)
                assert {name: found[name] for name in found if name in untouched} == untouched, step
                refused += 1
                continue
        # What is left to do when all of it was published is done by the next one.
        assert values(data) == sorted(expected((0, 400)) + WRITTEN), step
        assert values(data, "u") == sorted(WRITTEN), step
        whole(data)
        shutil.rmtree(data)
    assert refused > 50
    assert not leftovers(data)
