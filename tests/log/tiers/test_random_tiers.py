"""Tiers that leaders write who change and fail: the joined log is what was produced.

Only names say what segments there are, so that copies must not overlap: see tiers/by_name.py.
"""

from __future__ import annotations

import tempfile
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, note, settings
from hypothesis import strategies as st

from native_log import LogDir
from tests.builders.copies import RECORDS, Batch, rows, write_copy
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
KINDS = ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint")


@dataclass
class Cluster:
    """A partition with remote storage, as its leaders see it.

    Attributes:
        log: the batches of the present leader.
        epoch: its leader epoch.
        covered: all offsets below it have a copy in the tier that agrees with `log`.
        start: the log start offset.
        local_start: the first offset on the local disk.
    """

    tier: Path
    log: list[Batch] = field(default_factory=lambda: [Batch(0)])
    epoch: int = 0
    covered: int = 0
    start: int = 0
    local_start: int = 0
    uploads: list[tuple[int, int, list[Path]]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.log[-1].offset + RECORDS

    def append(self, count: int) -> None:
        for _ in range(count):
            self.log.append(Batch(self.end, self.epoch, f"{self.epoch}:"))

    def elect(self, lost: int) -> None:
        """Change the leader. The new one lacks the last `lost` batches, of those that have no copy."""
        keeps = max(len(self.log) - lost, self.covered // RECORDS, self.local_start // RECORDS + 1)
        self.log = self.log[:keeps]
        self.epoch += 1

    def upload(self, count: int, missing: Collection[str]) -> None:
        """Copy the next `count` batches. The copy lacks some objects: it did not end."""
        first = self.covered // RECORDS
        part = self.log[first : first + count]
        if not part:
            return
        name = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        folder = self.tier / "kafka-tiered-storage" / f"t-0-{TOPIC_ID}"
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            kind: folder / f"{part[0].offset:020}-{name}.{kind}" for kind in KINDS if kind not in missing
        }
        contents = {
            "log": b"".join(each.data for each in part),
            "leader_epoch_checkpoint": self.checkpoint(self.log[: first + len(part)]),
        }
        for kind, path in files.items():
            path.write_bytes(contents.get(kind, b""))
        if not missing:
            self.uploads.append((part[0].offset, part[-1].offset + RECORDS, list(files.values())))
            self.covered = part[-1].offset + RECORDS

    def delete_local(self, count: int) -> None:
        """Delete local batches that have a copy."""
        most = min(self.covered, self.end - RECORDS, self.local_start + count * RECORDS)
        self.local_start = max(self.local_start, most // RECORDS * RECORDS)

    def delete_remote(self, count: int) -> None:
        """Move the log start, and delete copies that end before it."""
        self.start = max(self.start, min(self.start + count * RECORDS, self.local_start))
        for _, end, files in list(self.uploads):
            if end <= self.start:
                for path in files:
                    path.unlink(missing_ok=True)

    @staticmethod
    def checkpoint(log: Sequence[Batch]) -> bytes:
        """Return a leader-epoch-checkpoint of the log."""
        epochs: dict[int, int] = {}
        for batch in log:
            epochs.setdefault(batch.epoch, batch.offset)
        lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs.items())
        return f"0\n{len(epochs)}\n{lines}".encode()

    def write_local(self, data: Path) -> None:
        local = [batch for batch in self.log if batch.offset >= self.local_start]
        directory = write_copy(data, local, log_start_offset=self.start)
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
        (directory / "leader-epoch-checkpoint").write_bytes(self.checkpoint(self.log))

    def rows(self) -> list[tuple[int, bytes]]:
        return [row for batch in self.log for row in batch.rows if row[0] >= self.start]


few = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("elect"), few),
    st.tuples(st.just("upload"), st.integers(1, 4), st.just(())),
    st.tuples(st.just("upload"), st.integers(1, 4), st.sets(st.sampled_from(KINDS), min_size=1)),
    st.tuples(st.just("delete_local"), few),
    st.tuples(st.just("delete_remote"), few),
)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.lists(steps, max_size=16))
def test_the_joined_log_is_what_was_produced(history: list[tuple]) -> None:
    with tempfile.TemporaryDirectory() as name:
        cluster = Cluster(Path(name) / "tier")
        for step, *arguments in [("append", 5), ("upload", 2, ()), *history]:
            getattr(cluster, step)(*arguments)
        cluster.write_local(Path(name) / "data")
        note(f"log {[(b.offset, b.epoch) for b in cluster.log]}, {cluster.start=}, {cluster.local_start=}")
        if not cluster.uploads:
            return
        log = LogDir(Path(name) / "data", remote=cluster.tier).partition("t", 0)
        assert (log.log_start_offset, log.log_end_offset) == (cluster.start, cluster.end)
        assert rows(log.read()) == cluster.rows()
        middle = (cluster.start + cluster.end) // 2
        assert rows(log.read(middle)) == [row for row in cluster.rows() if row[0] >= middle]
        assert rows(log.read(filter=f"offset < {middle}")) == [
            row for row in cluster.rows() if row[0] < middle
        ]
