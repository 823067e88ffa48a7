"""One damaged log, recovered by Kafka's own classes and by ours, and all that is then compared.

python -m tests.broker.trial SEED             the case, and what is wrong with it
python -m tests.broker.trial FIRST SECONDS    cases from a seed on, for so long; a summary at the end
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import native_log
from benchmarks.jvm import Jvm, compiled
from native_log import LogDir
from native_log.checkpoints.leader_epochs import parse_leader_epochs
from native_log.errors import CorruptIndexError, KafkaLogError
from native_log.log.producers.producer_state import parse_snapshot
from native_log.log.verification import verify_log

from .cluster import QUICKLY_STARTED
from .damage import CLEAN_SHUTDOWN, DIRECTORY, ENTRY_BYTES, EPOCHS, RECOVERY_POINT, TOPIC, Case
from .meant import meant

if TYPE_CHECKING:
    from native_log import PartitionRecovery
    from native_log.log.problems import Problem

    from .damage import MadeCase

LOADER = Path(__file__).parent / "LogLoader.java"
MODES = ("failFast", "dropMalformed", "permissive")


class Loader:
    """Kafka's own loading of a log directory, in a JVM (see LogLoader.java)."""

    def __init__(self, class_path: str) -> None:
        options = [*QUICKLY_STARTED, "-Xmx512m", "-Dlog4j2.level=OFF"]
        self._jvm = Jvm(class_path, "LogLoader", options=options)

    def load(self, log_dir: Path, index_interval_bytes: int) -> dict[str, Any]:
        config = {"index.interval.bytes": index_interval_bytes, "segment.index.bytes": 1 << 20}
        answer: dict[str, Any] = json.loads(
            self._jvm.ask(json.dumps({"path": str(log_dir), "config": config}))
        )
        return answer

    def close(self) -> None:
        self._jvm.close()


@dataclass
class Result:
    """What a case came to.

    Attributes:
        differences: (kind, text) of what is not as it must be.
        reported: whether verify found a problem.
        cuts, end_offset: whether our recovery cut anything off, and the log end offset then.
        is_empty: whether ours from the start left nothing.
        refused: why the broker cannot load the log at all; None if it can.
        clean: whether the broker trusted the clean-shutdown marker.
    """

    made: MadeCase
    differences: list[tuple[str, str]] = field(default_factory=list)
    refused: str | None = None
    clean: bool = False
    reported: bool = False
    cuts: bool = False
    is_empty: bool = False
    end_offset: int = 0

    def differ(self, kind: str, text: object) -> None:
        self.differences.append((kind, str(text)[:400]))

    def kinds(self) -> set[str]:
        """Of those that are not meant."""
        return {kind for kind, text in self.differences if meant(self, kind, text) is None}

    def all_kinds(self) -> set[str]:
        return {kind for kind, _ in self.differences}

    def __str__(self) -> str:
        found = [
            f"{'(meant) ' if meant(self, kind, text) else '! '}{kind}: {text}"
            for kind, text in self.differences
        ]
        refused = [] if self.refused is None else [f"refused by the broker: {self.refused}"]
        return "\n  ".join([str(self.made), *refused, *found])


def run(case: Case, loader: Loader, scratch: Path) -> Result:
    """Recover two copies, compare them, and look at what reading and `verify` make of the damage."""
    made = case.make()
    result = Result(made)
    theirs, ours, again = scratch / "theirs", scratch / "ours", scratch / "again"
    for path in (theirs, ours, again):
        shutil.rmtree(path, ignore_errors=True)
    made.files.write(theirs)
    made.files.write(ours)
    config = {"index.interval.bytes": made.index_interval_bytes}

    loaded = loader.load(theirs, made.index_interval_bytes)
    result.refused = loaded.get("error")
    result.clean = CLEAN_SHUTDOWN in made.files.beside
    fails = _read_damaged(ours, result)
    problems = _verify(ours, result, "verify-crash")
    result.reported = bool(problems)
    if result.clean and result.refused is None:
        _compare_loaded(ours, loaded, result)

    recovered = _recover(ours, config)
    if recovered.recovery is None:
        result.differ("recover-error", recovered.error)
        return result
    result.cuts, result.end_offset = recovered.recovery.cuts, recovered.recovery.log_end_offset
    if problems is not None and not problems and (fails or recovered.recovery.cuts):
        result.differ("verify-silent", fails or f"cut: {recovered.recovery.reason}")
    if result.refused is None and not result.clean:
        _compare_recovered(ours, theirs, loaded, recovered.recovery, result)
    _recover_again(ours, again, loader, config, result)
    return result


def _open(log_dir: Path) -> Any:
    return LogDir(log_dir).partition(TOPIC, 0)


def _offsets(batches: Any) -> list[int]:
    """Of the records: the rows of damaged ranges tell offsets, too."""
    columns = ((batch.column("offset"), batch.column("_corrupt_record")) for batch in batches)
    return [
        offset.as_py()
        for offsets, damaged in columns
        for offset, damage in zip(offsets, damaged, strict=True)
        if not damage.is_valid
    ]


def _read_damaged(log_dir: Path, result: Result) -> str | None:
    """Read in all modes; why failFast failed."""
    fails = None
    for mode in MODES:
        offsets: list[int] = []
        try:
            for batch in _open(log_dir).read(columns=["offset", "_corrupt_record"], mode=mode):
                offsets += _offsets([batch])
        except KafkaLogError as error:
            if mode == "failFast":
                fails = str(error)
            else:
                result.differ(f"read-{mode}-fails", error)
        except Exception as error:
            result.differ(f"read-{mode}-crash", repr(error))
        if any(after <= before for before, after in itertools.pairwise(offsets)):
            result.differ(f"read-{mode}-order", offsets)
    return fails


def _verify(log_dir: Path, result: Result, kind: str) -> list[Problem] | None:
    try:
        return list(verify_log(_open(log_dir)))
    except Exception as error:
        result.differ(kind, repr(error))
        return None


def _compare_loaded(log_dir: Path, loaded: dict[str, Any], result: Result) -> None:
    log = _open(log_dir)
    found = {
        "start": log.local_log_start_offset,
        "end": log.log_end_offset,
        "segments": [segment.base_offset for segment in log.segments],
    }
    # What a broker then does, reading does not.
    begins_anew = not log.segments or log.end_of_last_batch < log.local_log_start_offset
    for name, value in found.items():
        if value != loaded[name] and not (name == "segments" and begins_anew):
            result.differ(f"load-{name}", f"ours {value}, theirs {loaded[name]}")
    _compare_read(log, loaded, result, "load-read")


def _compare_read(log: Any, loaded: dict[str, Any], result: Result, kind: str) -> None:
    offsets: list[int] = []
    stopped = None
    try:
        for batch in log.read(columns=["offset", "_corrupt_record"]):
            offsets += _offsets([batch])
    except KafkaLogError as error:
        stopped = str(error)
    their_stop, theirs = loaded.get("stopped"), loaded["offsets"]
    same = theirs[: len(offsets)] == offsets if stopped else theirs == offsets and their_stop is None
    if not same:
        result.differ(
            kind,
            f"only ours {_short(sorted({*offsets} - {*theirs}))} {stopped or 'to the end'}; "
            f"only theirs {_short(sorted({*theirs} - {*offsets}))} {their_stop or 'to the end'}",
        )


def _short(offsets: list[int]) -> str:
    """As ranges."""
    ranges: list[list[int]] = []
    for one in offsets:
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return " ".join(f"{first}-{last}" for first, last in ranges[:12]) + (" ..." if len(ranges) > 12 else "")


def contents(log_dir: Path, partition: str = DIRECTORY) -> dict[str, bytes]:
    """Of the partition, by name, but for what is being removed. An empty .txnindex or .timeindex is none."""
    return {
        file.name: file.read_bytes()
        for file in (log_dir / partition).iterdir()
        if file.suffix not in (".deleted", ".tmp") and file.name != EPOCHS
        if file.suffix not in (".txnindex", ".timeindex") or file.stat().st_size
    }


def epochs(log_dir: Path, partition: str = DIRECTORY) -> list[tuple[int, int]]:
    try:
        text = (log_dir / partition / EPOCHS).read_text()
        return [(one.epoch, one.start_offset) for one in parse_leader_epochs(text)] if text else []
    except (FileNotFoundError, ValueError):
        return []


def _compare_recovered(
    ours: Path, theirs: Path, loaded: dict[str, Any], recovery: Any, result: Result
) -> None:
    for name, value in (("start", recovery.log_start_offset), ("end", recovery.log_end_offset)):
        if value != loaded[name]:
            result.differ(name, f"ours {value}, theirs {loaded[name]}")
    _compare_files(contents(ours), contents(theirs), result, "ours", "theirs", "")
    if (mine := epochs(ours)) != (other := [tuple(one) for one in loaded["epochs"]]):
        result.differ("epochs", f"ours {mine}, theirs {other}")
    if not result.differences:
        _compare_read(_open(ours), loaded, result, "read-recovered")


def _compare_files(
    mine: dict[str, bytes], others: dict[str, bytes], result: Result, me: str, other: str, prefix: str
) -> None:
    for name in sorted({*mine, *others}):
        kind = name.split(".", 1)[-1]
        one, two = mine.get(name), others.get(name)
        if one is None or two is None:
            there = other if one is None else me
            result.differ(
                f"{prefix}file-{kind}", f"{name} ({len(one or two or b'')} bytes) is only in {there}"
            )
        elif kind == "snapshot":
            if (first := snapshot(one)) != (second := snapshot(two)):
                differ = {key: (first.get(key), second.get(key)) for key in {*first, *second}
                          if first.get(key) != second.get(key)}  # fmt: skip
                result.differ(f"{prefix}content-{kind}", f"{name}: {me}, {other}: {differ}")
        elif one == two:
            continue
        elif kind in ENTRY_BYTES and one[: len(one) // ENTRY_BYTES[kind] * ENTRY_BYTES[kind]] == two:
            result.differ(f"{prefix}torn-{kind}", f"{name}: {me} {len(one)} bytes, {other} {len(two)}")
        else:
            at = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), "the end")
            result.differ(
                f"{prefix}content-{kind}",
                f"{name}: {me} {len(one)} bytes, {other} {len(two)}, they differ at {at}",
            )


def snapshot(data: bytes) -> dict[int, Any]:
    try:
        return {one.producer_id: one for one in parse_snapshot(data)}
    except CorruptIndexError as error:
        return {-1: str(error)}


def _recover(log_dir: Path, config: dict[str, int], *, from_start: bool = False) -> PartitionRecovery:
    results: list[PartitionRecovery] = []
    native_log.recover(log_dir, config=config, from_start=from_start, on_partition=results.append)
    (result,) = results
    return result


def _recover_again(ours: Path, again: Path, loader: Loader, config: dict[str, int], result: Result) -> None:
    """Behind a recovery from the start there is nothing to find, and nothing that another one changes, be it
    ours or the broker's."""
    once = _recover(ours, config, from_start=True)
    if once.recovery is None:
        result.differ("from-start-error", once.error)
        return
    result.is_empty = once.recovery.log_start_offset == once.recovery.log_end_offset
    for problem in _verify(ours, result, "verify-after-crash") or ():
        result.differ(f"verify-after-{problem.kind}", problem)
    before, epochs_before = contents(ours), epochs(ours)
    shutil.copytree(ours, again)
    native_log.recover(ours, config=config, from_start=True)
    _compare_files(before, contents(ours), result, "once", "twice", "again-")
    if epochs(ours) != epochs_before:
        result.differ("again-epochs", f"{epochs_before} then {epochs(ours)}")
    for name in (CLEAN_SHUTDOWN, RECOVERY_POINT):
        (again / name).unlink(missing_ok=True)
    loaded = loader.load(again, config["index.interval.bytes"])
    if "error" in loaded:
        result.differ("broker-after-refuses", loaded["error"])
        return
    _compare_files(before, contents(again), result, "recovered", "then by a broker", "broker-after-")
    if [tuple(one) for one in loaded["epochs"]] != epochs_before:
        result.differ("broker-after-epochs", f"recovered {epochs_before}, then {loaded['epochs']}")


def shrunk(result: Result, loader: Loader, scratch: Path) -> Result:
    """The same case with as few of its damages as still show the same kinds of differences."""
    wanted = result.kinds()
    for number in range(len(result.made.damages)):
        case = result.made.case
        smaller = run(replace(case, without=case.without | {number}), loader, scratch)
        if wanted <= smaller.kinds():
            result = smaller
    return result


@contextlib.contextmanager
def quickly():
    """No waiting for the disk, no warnings."""
    logging.disable(logging.CRITICAL)
    fsync, os.fsync = os.fsync, lambda _: None
    try:
        yield
    finally:
        os.fsync = fsync
        logging.disable(logging.NOTSET)


@dataclass
class Summary:
    """What many cases came to, counted."""

    cases: Counter[str] = field(default_factory=Counter)
    damages: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    meant: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        kinds = result.kinds()
        self.cases["all"] += 1
        self.cases["refused by the broker"] += result.refused is not None
        self.cases["clean shutdown"] += result.clean
        self.cases["cut"] += result.cuts
        self.cases["different"] += bool(kinds)
        self.cases["different as meant"] += bool(result.differences) and not kinds
        self.damages.update(result.made.kinds)
        self.differences.update(kinds)
        self.meant.update(
            {reason for one in result.differences if (reason := meant(result, *one)) is not None}
        )
        if result.refused is not None:
            self.refusals[result.refused[:90]] += 1

    def __str__(self) -> str:
        return "\n".join(
            f"{name}, {sum(counter.values())} in all:\n"
            + "".join(f"  {count:6} {what}\n" for what, count in counter.most_common())
            for name, counter in vars(self).items()
        )


def main() -> None:
    first, seconds = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0
    scratch = Path(tempfile.mkdtemp())
    loader = Loader(compiled([LOADER], scratch / "classes"))
    summary, end = Summary(), time.monotonic() + seconds
    try:
        with quickly():
            for seed in itertools.count(first):
                result = run(Case(seed), loader, scratch)
                if seconds == 0:
                    print(result)
                elif any(summary.differences[kind] < 2 for kind in result.kinds()):
                    print(shrunk(result, loader, scratch), flush=True)
                summary.add(result)
                if time.monotonic() >= end:
                    break
    finally:
        loader.close()
        shutil.rmtree(scratch)
    if seconds:
        print(f"seeds {first} to {seed}\n{summary}")


if __name__ == "__main__":
    main()
