"""Damaged copies of the golden logs, each determined by a seed."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from random import Random

from tests.builders.golden import GOLDEN, GoldenPartition, golden_id, golden_partitions

from .damage import DAMAGES
from .log_dir_files import CLEAN_SHUTDOWN, LOG_START, RECOVERY_POINT, LogDirFiles, checkpoint

_LARGEST_LOG = 60_000
_BROKERS = ("kafka-2.8", "kafka-3.9", "kafka-4.1")
"""The brokers whose logs are damaged. Another one would change the case that each seed determines."""


@dataclass(frozen=True)
class Case:
    """Determines a damaged log.

    Attributes:
        without: numbers of the damages to leave out, to find those that matter.
    """

    seed: int
    without: frozenset[int] = frozenset()

    def damaged_log(self) -> DamagedLog:
        random = Random(self.seed)
        source, other = random.choice(_sources()), random.choice(_sources())
        expected = source.expected
        files = LogDirFiles(_read_files(source), {}, _read_files(other), expected["latest"])
        bases = files.base_offsets()
        start = expected["earliest"]
        point = random.choice([None, 0, 0, random.choice(bases), files.end, random.randint(0, files.end)])
        if start > bases[0]:
            files.checkpoints[LOG_START] = checkpoint(start)
        if point is not None:
            files.checkpoints[RECOVERY_POINT] = checkpoint(point)
        if random.random() < 0.2:
            files.checkpoints[CLEAN_SHUTDOWN] = b'{"version":0,"brokerEpoch":7}'
        log = DamagedLog(self, golden_id(source), golden_id(other), _index_interval(source), files)
        for number in range(random.choice([1, 1, 1, 2, 2, 3, 4])):
            if number not in self.without:
                log.apply_any(number, Random(f"{self.seed}/{number}"))
        return log


@dataclass
class DamagedLog:
    """
    Attributes:
        source, other: the golden partitions of `files`.
        damages: descriptions of the damages, in order.
        kinds: their names in DAMAGES.
    """

    case: Case
    source: str
    other: str
    index_interval_bytes: int
    files: LogDirFiles
    damages: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def apply_any(self, number: int, random: Random) -> None:
        """Apply the first randomly chosen damage that is possible."""
        description = None
        while description is None:
            name = random.choice(sorted(DAMAGES))
            description = DAMAGES[name](self.files, random)
        self.kinds.append(name)
        self.damages.append(f"{number}: {name}: {description}")

    def __str__(self) -> str:
        checkpoints = {
            name: data.decode(errors="replace") for name, data in sorted(self.files.checkpoints.items())
        }
        first = f"seed {self.case.seed}: a copy of {self.source} (other log: {self.other}), {checkpoints}"
        return "\n  ".join([first, *self.damages])


@functools.cache
def _sources() -> tuple[GoldenPartition, ...]:
    """Return the golden partitions that have batches and are not too large."""
    return tuple(
        partition
        for partition in golden_partitions()
        if partition.fixture.startswith(_BROKERS)
        and 0 < sum(file.stat().st_size for file in partition.path.glob("*.log")) <= _LARGEST_LOG
    )


def _read_files(partition: GoldenPartition) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in partition.path.iterdir()
        if file.is_file() and file.name != "partition.metadata"
    }


def _index_interval(source: GoldenPartition) -> int:
    expected = json.loads((GOLDEN / source.fixture / "expected.json").read_text())
    return int(expected["topics"][source.topic]["config"].get("index.interval.bytes", 4096))
