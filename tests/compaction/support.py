"""The rounds that brokers' cleaners did, before and after each, and how to do them again."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from native_log.config import LogConfig
from native_log.records import scan

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
ALWAYS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
FORGOTTEN = {"kafka-3.9-compact-idem-round1"}
"""Where the broker had forgotten the producers, whose records were old."""


@dataclass(frozen=True)
class BrokersRound:
    before: Path
    after: Path

    @property
    def topic(self) -> str:
        return self.before.parent.name

    @property
    def config(self) -> dict[str, str]:
        expected = json.loads((self.after / "expected.json").read_text())
        return {**expected["topics"][self.topic]["config"], **ALWAYS}

    @property
    def now_ms(self) -> int:
        """When the broker did it, from the delete horizons it gave; else a time before any horizon."""
        given = _horizons(self.after, self.topic) - _horizons(self.before, self.topic)
        some_time = 1 << 41 if round_id(self) in FORGOTTEN else 1 << 40
        return min(given, default=some_time) - LogConfig.parse(self.config).delete_retention_ms

    def copy(self, to: Path) -> Path:
        """The log directory before the round, with the files' times."""
        return Path(shutil.copytree(self.before / "data", to, copy_function=shutil.copy2))


def rounds() -> list[BrokersRound]:
    """Of the brokers that know delete horizons. (3.0 and older: by the age of files)"""
    found = sorted(GOLDEN.glob("kafka-[34]*/compact-*/round*-before"))
    return [BrokersRound(path, path.with_name(path.name.replace("before", "after"))) for path in found]


def round_id(one: BrokersRound) -> str:
    return f"{one.before.parents[1].name}-{one.topic}-{one.before.name[:6]}"


def batches(path: Path) -> list[dict[str, Any]]:
    return scan(path.read_bytes(), check_crcs=True).batches.to_pylist()


def logs(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.glob("*.log"))}


def files(directory: Path) -> dict[str, bytes]:
    """All files below a directory but the lock."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def _horizons(fixture: Path, topic: str) -> set[int]:
    partition = fixture / "data" / f"{topic}-0"
    rows = (row for path in partition.glob("*.log") for row in batches(path))
    return {row["deleteHorizonMs"] for row in rows if row["deleteHorizonMs"] is not None}
