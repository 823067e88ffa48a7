"""A partition with remote storage whose leaders change and fail."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from native_log.messages.remote_log import RECORDS as METADATA_RECORDS
from native_log.messages.remote_log import SEGMENT_STATES

from .batches import Rec, v2
from .copies import RECORDS, Batch, epoch_starts, write_copy
from .logs import write_log
from .messages import encode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
KINDS = ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint")


STARTED, COPIED, DELETING, DELETED = range(len(SEGMENT_STATES))


class Upload(NamedTuple):
    """A finished copy: its offsets, its segment id and its objects."""

    start: int
    end: int
    id: str
    files: Sequence[Path]


@dataclass
class Cluster:
    """A partition with remote storage, as its leaders see it. Leaders have all batches of the copies.

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
    uploads: list[Upload] = field(default_factory=list)

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
        if part:
            upload = self.write_copy(first, first + len(part), missing)
            if not missing:
                self.uploads.append(upload)
                self.covered = upload.end

    def write_copy(self, first: int, last: int, missing: Collection[str]) -> Upload:
        """Write the objects of a segment with the batches from number `first` to before `last`."""
        part = self.log[first:last]
        name = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        folder = self.tier / "kafka-tiered-storage" / f"t-0-{TOPIC_ID}"
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            kind: folder / f"{part[0].offset:020}-{name}.{kind}" for kind in KINDS if kind not in missing
        }
        contents = {
            "log": b"".join(each.data for each in part),
            "leader_epoch_checkpoint": self.checkpoint(self.log[:last]),
        }
        for kind, path in files.items():
            path.write_bytes(contents.get(kind, b""))
        return Upload(part[0].offset, part[-1].offset + RECORDS, name, list(files.values()))

    def delete_local(self, count: int) -> None:
        """Delete local batches that have a copy."""
        most = min(self.covered, self.end - RECORDS, self.local_start + count * RECORDS)
        self.local_start = max(self.local_start, most // RECORDS * RECORDS)

    def delete_remote(self, count: int) -> None:
        """Move the log start, and delete copies that end before it."""
        self.start = max(self.start, min(self.start + count * RECORDS, self.local_start))
        for upload in self.uploads:
            if upload.end <= self.start:
                for path in upload.files:
                    path.unlink(missing_ok=True)

    @staticmethod
    def checkpoint(log: Sequence[Batch]) -> bytes:
        """Return a leader-epoch-checkpoint of the log."""
        epochs = epoch_starts(log)
        lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs.items())
        return f"0\n{len(epochs)}\n{lines}".encode()

    def write_local(self, data: Path, lag: int = 0) -> Path:
        """Write the local log, without its last `lag` batches. Return the partition directory."""
        local = [batch for batch in self.log if batch.offset >= self.local_start]
        local = local[: max(1, len(local) - lag)]
        directory = write_copy(data, local, log_start_offset=self.start)
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
        known = [batch for batch in self.log if batch.offset <= local[-1].offset]
        (directory / "leader-epoch-checkpoint").write_bytes(self.checkpoint(known))
        return directory

    def rows(self) -> list[tuple[int, bytes]]:
        return [row for batch in self.log for row in batch.rows if row[0] >= self.start]


@dataclass
class TrackedCluster(Cluster):
    """A cluster that keeps __remote_log_metadata, so that copies may overlap, and leaders may lack batches.

    Attributes:
        metadata: the values of the records there.
    """

    metadata: list[bytes] = field(default_factory=list)

    def elect(self, lost: int) -> None:
        """Change the leader. The new one lacks the last `lost` batches, even if there are copies of them."""
        self.log = self.log[: max(len(self.log) - lost, self.local_start // RECORDS + 1)]
        self.covered = min(self.covered, self.end)
        self.epoch += 1

    def upload(self, count: int, overlap: int) -> None:
        """Copy the next `count` batches, with `overlap` batches before them in the leader's segment."""
        upload = self.start_upload(count, overlap, ())
        if upload is not None:
            self.note(upload.id, COPIED)
            self.uploads.append(upload)
            self.covered = upload.end

    def fail(self, count: int, overlap: int, missing: Collection[str]) -> None:
        """Start the copy that `upload` would make, but do not finish it."""
        self.start_upload(count, overlap, missing)

    def start_upload(self, count: int, overlap: int, missing: Collection[str]) -> Upload | None:
        """Write the objects and the first record of a copy. Return None if there is nothing to copy."""
        covered = self.covered // RECORDS
        first = max(covered - overlap, self.local_start // RECORDS)
        last = min(covered + count, len(self.log))
        if last <= covered:
            return None
        upload = self.write_copy(first, last, missing)
        epochs = epoch_starts(self.log[first:last])
        content = {
            "startOffset": upload.start,
            "endOffset": upload.end - 1,
            "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": at} for epoch, at in epochs.items()],
        }
        self.note(upload.id, STARTED, content)
        return upload

    def delete_remote(self, count: int, state: int = DELETED) -> None:
        """Move the log start, and delete the copies before it, up to the given state."""
        self.start = max(self.start, min(self.start + count * RECORDS, self.local_start))
        for upload in [each for each in self.uploads if each.end <= self.start]:
            self.note(upload.id, DELETING)
            # An unfinished deletion removes some objects, but not the batches.
            for path in upload.files if state == DELETED else upload.files[1:3]:
                path.unlink()
            if state == DELETED:
                self.note(upload.id, DELETED)
            self.uploads.remove(upload)

    def note(self, segment_id: str, state: int, content: Mapping[str, object] | None = None) -> None:
        """Append a metadata record for a segment: its content, or an update of its state."""
        kind = 1 if content is None else 0
        ids = {"topicIdPartition": {"name": "t", "id": TOPIC_ID, "partition": 0}, "id": segment_id}
        fields = {"remoteLogSegmentId": ids, "state": state, **(content or {})}
        self.metadata.append(bytes([1, kind, 0]) + encode(METADATA_RECORDS[kind], 0, fields))

    def write_metadata(self, data: Path, count: int | None = None) -> None:
        """Write the first `count` records of the metadata into a log directory."""
        batches = [v2([Rec(None, value)], offset) for offset, value in enumerate(self.metadata[:count])]
        write_log(data / "__remote_log_metadata-0", {0: batches})
        (data / "meta.properties").write_text("version=0\nbroker.id=1\n")
