"""Find and open the directories that real brokers wrote: see docs/fixtures.md."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from native_log.log import PartitionCheckpoints, PartitionLog

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "golden"


@dataclass(frozen=True)
class GoldenPartition:
    """One partition of one fixture, and what a broker and a consumer said of it."""

    fixture: str
    expected: dict[str, Any]
    facts: dict[str, Any]

    @property
    def path(self) -> Path:
        return GOLDEN / self.fixture / self.expected["dir"]

    @property
    def topic(self) -> str:
        return str(self.expected["topic"])

    @property
    def partition(self) -> int:
        return int(self.expected["partition"])

    def rows(self, isolation_level: str = "read_uncommitted") -> list[dict[str, Any]]:
        """The consumer's records, keys, values and header values as bytes."""
        rows = self.expected["rows"]
        if isolation_level == "read_committed" and self.expected["rowsCommitted"] is not None:
            rows = self.expected["rowsCommitted"]
        return read_rows(GOLDEN / self.fixture / rows["file"])


def read_rows(file: Path) -> list[dict[str, Any]]:
    def plain(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        row["key"], row["value"] = plain(row["key"]), plain(row["value"])
        row["headers"] = [(name, plain(value)) for name, value in row["headers"]]
    return rows


def golden_partitions() -> Iterator[GoldenPartition]:
    for file in sorted(GOLDEN.glob("**/expected.json")):
        expected = json.loads(file.read_text())
        for partition in expected["partitions"]:
            yield GoldenPartition(
                str(file.parent.relative_to(GOLDEN)), partition, expected.get("facts") or {}
            )


def golden_id(partition: GoldenPartition) -> str:
    return f"{partition.fixture}:{partition.topic}-{partition.partition}"


PARTITIONS = list(golden_partitions())


def golden(fixture: str) -> GoldenPartition:
    return next(p for p in PARTITIONS if p.fixture == fixture)


def open_golden(partition: GoldenPartition, path: Path | None = None) -> PartitionLog:
    checkpoint = PartitionCheckpoints(log_start_offset=partition.expected["earliest"])
    return PartitionLog.open(
        path or partition.path,
        topic=partition.topic,
        partition=partition.partition,
        checkpoints=checkpoint,
    )
