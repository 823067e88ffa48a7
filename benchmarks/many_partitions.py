"""Make a log directory of many small partitions from one batch that a broker wrote."""

import base64
import shutil
import struct
import uuid
from pathlib import Path

from benchmarks.corpus import Corpus

PARTITIONS_PER_TOPIC = 100
SEGMENTS = 10
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)


def make(folder: Path, seed: Corpus, partitions: int) -> tuple[Path, int]:
    """Make partitions with SEGMENTS segments of one batch each, unless an earlier run has made them.

    Returns the log directory and its number of records.
    """
    batch = _first_batch(seed.segments("seed")[0])
    records = struct.unpack_from(">i", batch, 57)[0]
    log_dir, complete = folder / f"many-{partitions}", folder / f"many-{partitions}.made"
    if not complete.exists():
        shutil.rmtree(log_dir, ignore_errors=True)
        log_dir.mkdir(parents=True)
        names = [divmod(number, PARTITIONS_PER_TOPIC) for number in range(partitions)]
        for topic, partition in names:
            _make_partition(log_dir / f"many{topic:04}-{partition}", topic, batch, records)
        for checkpoint in CHECKPOINTS:
            lines = [f"many{topic:04} {partition} {SEGMENTS * records}\n" for topic, partition in names]
            (log_dir / checkpoint).write_text(f"0\n{len(lines)}\n{''.join(lines)}")
        shutil.copy(seed.log_dir / "meta.properties", log_dir)
        (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        complete.touch()
    return log_dir, partitions * SEGMENTS * records


def _make_partition(path: Path, topic: int, batch: bytes, records: int) -> None:
    path.mkdir()
    topic_id = base64.urlsafe_b64encode(uuid.UUID(int=topic + 1).bytes).rstrip(b"=").decode()
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    max_timestamp = batch[35:43]
    for segment in range(SEGMENTS):
        base_offset = segment * records
        # The CRC of a batch does not cover its base offset.
        (path / f"{base_offset:020}.log").write_bytes(struct.pack(">q", base_offset) + batch[8:])
        (path / f"{base_offset:020}.index").touch()
        (path / f"{base_offset:020}.timeindex").write_bytes(max_timestamp + struct.pack(">i", records - 1))


def _first_batch(segment: Path) -> bytes:
    content = segment.read_bytes()
    return content[: 12 + struct.unpack_from(">i", content, 8)[0]]
