"""Timing in turn (A B A B ...), so that whatever the machine does besides falls on all alike."""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import psutil

QUIET_CORES = 0.5
WAIT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one contender did with one piece of work, several times."""

    work: str  # what was done
    corpus: str  # with what
    contender: str  # by whom
    rows: int
    size_bytes: int  # of the segment files read
    seconds: tuple[float, ...]  # of each run, warm-up runs left out
    foreign_cores: float  # how many cores anything else used meanwhile, on average
    written_bytes: int = 0  # by writers: the size of what came out

    @property
    def median_seconds(self) -> float:
        return statistics.median(self.seconds)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.median_seconds


@dataclass(frozen=True, slots=True)
class Pass:
    """What one run of a contender has to tell; without `seconds` the call itself is timed."""

    rows: int
    seconds: float | None = None
    written_bytes: int = 0


def in_turn(
    work: str,
    corpus: str,
    contenders: Mapping[str, Callable[[], Pass]],
    *,
    size_bytes: int,
    rows: int | None = None,
    runs: int = 5,
    warmups: int = 2,
) -> list[Measurement]:
    """Run each contender `warmups` + `runs` times, one after the other in each round.

    All must find the same number of rows (`rows`, where it is known); another is an error, not a result.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    foreign: dict[str, list[float]] = {name: [] for name in contenders}
    written = dict.fromkeys(contenders, 0)
    for round_number in range(warmups + runs):
        for name, run in contenders.items():
            _wait_until_quiet()
            busy_before, own_before, started = _busy_seconds(), _own_seconds(), time.perf_counter()
            told = run()
            elapsed = time.perf_counter() - started
            if rows is None:
                rows = told.rows
            if told.rows != rows:
                raise AssertionError(f"{work}, {corpus}: {name} found {told.rows} rows instead of {rows}")
            written[name] = told.written_bytes
            if round_number >= warmups:
                others = (_busy_seconds() - busy_before) - (_own_seconds() - own_before)
                seconds[name].append(elapsed if told.seconds is None else told.seconds)
                foreign[name].append(max(0.0, others / elapsed))
    assert rows is not None
    cores = {name: round(statistics.mean(samples), 2) for name, samples in foreign.items()}
    return [
        Measurement(work, corpus, name, rows, size_bytes, tuple(seconds[name]), cores[name], written[name])
        for name in contenders
    ]


def find(measurements: Iterable[Measurement], work: str, corpus: str, contender: str) -> Measurement | None:
    for one in measurements:
        if (one.work, one.corpus, one.contender) == (work, corpus, contender):
            return one
    return None


def _wait_until_quiet() -> None:
    """Until others use less than half a core, but at most for a while."""
    if os.environ.get("KAFKALOG_BENCH_NO_WAIT"):
        return
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        busy, own, started = _busy_seconds(), _own_seconds(), time.monotonic()
        time.sleep(0.2)
        others = (_busy_seconds() - busy) - (_own_seconds() - own)
        if others / (time.monotonic() - started) < QUIET_CORES:
            return


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _own_seconds() -> float:
    """Of this process and all it started, those that have ended too."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total
