"""Find the remote storage, and the log directories beside it, that real brokers wrote."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.golden import DATA, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN_TIERED = DATA / "golden-tiered"


@dataclass(frozen=True)
class TieredPartition:
    """One partition with remote storage, and what a broker and a consumer said of it."""

    fixture: str
    layout: str
    prefix: str
    expected: dict[str, Any]
    copy: Path | None = None

    @property
    def folder(self) -> Path:
        return self.copy or GOLDEN_TIERED / self.fixture

    @property
    def remote(self) -> dict[str, Any]:
        """The arguments of LogDir to read the tier."""
        keys = self.folder / "keys"
        if keys.exists():
            pytest.importorskip("cryptography")
        return {
            "remote": self.folder / "tier",
            "remote_prefix": self.prefix,
            "remote_keys": keys if keys.exists() else None,
        }

    @property
    def key(self) -> tuple[str, int]:
        return self.expected["topic"], self.expected["partition"]

    def copy_to(self, folder: Path) -> TieredPartition:
        """Copy all files to a new folder, so that a test can change them."""
        return replace(self, copy=Path(shutil.copytree(self.folder, folder)))

    def rows(self, isolation_level: str = "read_uncommitted") -> list[dict[str, Any]]:
        """The consumer's records, keys, values and header values as bytes."""
        rows = self.expected["rows"]
        if isolation_level == "read_committed" and self.expected["rowsCommitted"] is not None:
            rows = self.expected["rowsCommitted"]
        return read_rows(self.folder / rows["file"])

    def objects(self) -> list[Path]:
        """Return the objects of the partition. The names of folders depend on the layout."""
        topic, number = re.escape(self.key[0]), self.key[1]
        folder = rf"{topic}-{number}|{topic}-{number}-[\w-]{{22}}|.*{topic}-[\w-]{{22}}/{number}"
        objects = sorted(each for each in (self.folder / "tier").rglob("0*.*") if each.is_file())
        return [each for each in objects if re.fullmatch(rf".*/({folder})", str(each.parent))]

    def delete_objects(self, before: int) -> None:
        """Delete the objects of segments that begin before an offset."""
        for file in self.objects():
            if int(file.name[:20]) < before:
                file.unlink()

    def __str__(self) -> str:
        return f"{self.fixture}:{self.key[0]}-{self.key[1]}"


def tiered_partitions() -> Iterator[TieredPartition]:
    for file in sorted(GOLDEN_TIERED.glob("*/expected.json")):
        expected = json.loads(file.read_text())
        prefix = expected["settings"].get("keyPrefix", "")
        for partition in expected["partitions"]:
            yield TieredPartition(file.parent.name, expected["layout"], prefix, partition)


TIERED_PARTITIONS = list(tiered_partitions())


def tiered(fixture: str, topic: str | None = None) -> TieredPartition:
    found = (each for each in TIERED_PARTITIONS if each.fixture == fixture)
    return next(each for each in found if topic in (None, each.key[0]))


DANGLING = tiered("pinterest")
"""Its segment at 47 has no index, so that Pinterest's consumer does not read it."""
READABLE = [each for each in TIERED_PARTITIONS if each != DANGLING]
