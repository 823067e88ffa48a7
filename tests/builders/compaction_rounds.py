"""Rounds of compaction that brokers carried out: the logs before and after, and how to repeat them."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from native_log.config import LogConfig
from native_log.records import scan

from .golden import GOLDEN

ALWAYS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
EXPIRED_PRODUCERS = {"kafka-3.9-compact-idem-round1"}
"""Rounds in which the broker had expired the producers, because their records were old."""


@dataclass(frozen=True)
class BrokerRound:
    """A round of a broker: the fixtures with its log directory before and after."""

    before: Path
    after: Path

    @property
    def topic(self) -> str:
        return self.before.parent.name

    @property
    def kafka(self) -> str:
        """The version of the broker, such as kafka-4.1."""
        return self.before.parents[1].name

    @property
    def config(self) -> dict[str, str]:
        expected = json.loads((self.after / "expected.json").read_text())
        return {**expected["topics"][self.topic]["config"], **ALWAYS}

    @property
    def now_ms(self) -> int:
        """The time of the round, from the delete horizons that it set; else a time before any horizon."""
        new_horizons = _horizons(self.after, self.topic) - _horizons(self.before, self.topic)
        any_time = 1 << 41 if round_id(self) in EXPIRED_PRODUCERS else 1 << 40
        return min(new_horizons, default=any_time) - LogConfig.parse(self.config).delete_retention_ms

    def copy(self, to: Path) -> Path:
        """Copy the log directory before the round, with the modification times of its files."""
        return Path(shutil.copytree(self.before / "data", to, copy_function=shutil.copy2))


def broker_rounds() -> list[BrokerRound]:
    """Return the rounds of brokers that set delete horizons. (3.0 and older use the age of files instead.)"""
    paths = sorted(GOLDEN.glob("kafka-[34]*/compact-*/round*-before"))
    return [BrokerRound(path, path.with_name(path.name.replace("before", "after"))) for path in paths]


def round_id(broker_round: BrokerRound) -> str:
    return f"{broker_round.kafka}-{broker_round.topic}-{broker_round.before.name[:6]}"


def batches(path: Path) -> list[dict[str, Any]]:
    return scan(path.read_bytes(), check_crcs=True).batches.to_pylist()


def logs(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.glob("*.log"))}


def _horizons(fixture: Path, topic: str) -> set[int]:
    partition = fixture / "data" / f"{topic}-0"
    rows = (row for path in partition.glob("*.log") for row in batches(path))
    return {row["deleteHorizonMs"] for row in rows if row["deleteHorizonMs"] is not None}
