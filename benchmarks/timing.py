"""Run contenders in turn (A B A B ...), so that other load on the machine affects all of them equally."""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import psutil

QUIET_CORES = 0.5
WAIT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """The timed runs of one contender at one task on one corpus.

    Attributes:
        work: the task.
        corpus: the data.
        contender: who did it.
        rows: number of records of each run.
        size_bytes: size of the input.
        seconds: of each run, without warm-up runs.
        foreign_cores: cores that other processes used meanwhile, on average.
        written_bytes: size of a writer's output.
    """

    work: str
    corpus: str
    contender: str
    rows: int
    size_bytes: int
    seconds: tuple[float, ...]
    foreign_cores: float
    written_bytes: int = 0

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        return cls(**(fields | {"seconds": tuple(fields["seconds"])}))

    @property
    def median_seconds(self) -> float:
        return statistics.median(self.seconds)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.median_seconds


@dataclass(frozen=True, slots=True)
class Pass:
    """The result of one run. `seconds` is None if the caller is to time the call itself."""

    rows: int
    seconds: float | None = None
    written_bytes: int = 0


def measure_in_turn(
    work: str,
    corpus: str,
    contenders: Mapping[str, Callable[[], Pass]],
    *,
    size_bytes: int,
    rows: int | None = None,
    runs: int = 5,
    warmups: int = 2,
) -> list[Measurement]:
    """Run `warmups` + `runs` rounds, each with one run of every contender.

    Raises:
        AssertionError: a contender reports another number of rows than `rows`, or than the first contender.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    foreign: dict[str, list[float]] = {name: [] for name in contenders}
    written = dict.fromkeys(contenders, 0)
    for round_number in range(warmups + runs):
        for name, run in contenders.items():
            _wait_until_quiet()
            busy_before, own_before, started = _busy_seconds(), _own_seconds(), time.perf_counter()
            result = run()
            elapsed = time.perf_counter() - started
            if rows is None:
                rows = result.rows
            if result.rows != rows:
                raise AssertionError(f"{work}, {corpus}, {name}: expected {rows} rows, found {result.rows}")
            written[name] = result.written_bytes
            if round_number >= warmups:
                others = (_busy_seconds() - busy_before) - (_own_seconds() - own_before)
                seconds[name].append(elapsed if result.seconds is None else result.seconds)
                foreign[name].append(max(0.0, others / elapsed))
    assert rows is not None
    cores = {name: round(statistics.mean(samples), 2) for name, samples in foreign.items()}
    return [
        Measurement(work, corpus, name, rows, size_bytes, tuple(seconds[name]), cores[name], written[name])
        for name in contenders
    ]


def find(measurements: Iterable[Measurement], work: str, corpus: str, contender: str) -> Measurement | None:
    for measurement in measurements:
        if (measurement.work, measurement.corpus, measurement.contender) == (work, corpus, contender):
            return measurement
    return None


def _wait_until_quiet() -> None:
    """Wait until other processes use less than QUIET_CORES, at most for WAIT_SECONDS."""
    if os.environ.get("KAFKALOG_BENCH_NO_WAIT"):
        return
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        busy, own, started = _busy_seconds(), _own_seconds(), time.monotonic()
        time.sleep(0.2)
        others = (_busy_seconds() - busy) - (_own_seconds() - own)
        if others / (time.monotonic() - started) < QUIET_CORES:
            return


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _own_seconds() -> float:
    """Return the processor time of this process and its descendants, including those that have exited."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total
