"""Make the corpus: topics that a real producer sends to a real broker, which then stops cleanly."""

import json
import subprocess
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

from benchmarks.broker import Broker
from benchmarks.jvm import Jvm, compile_java
from benchmarks.paths import HERE, ROOT, scratch

KIB, MIB = 1024, 1024 * 1024
CODECS = ("none", "lz4", "zstd", "snappy", "gzip")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and the records to send to it. CorpusWriter.java expects the fields in this order."""

    name: str
    codec: str
    records: int
    partitions: int = 4
    value_bytes: int = 100  # keys have 16 bytes
    batch_bytes: int = 64 * KIB
    segment_bytes: int = 256 * MIB
    distinct_keys: int = 0  # 0: all keys differ
    shape: str = ""  # of the values, see kernel/arrow/benches/support/shapes.rs; "": CorpusWriter's default


SMALL = tuple(Topic(f"small100-{codec}", codec, 8_000_000) for codec in CODECS)
KB1 = tuple(Topic(f"kb1-{codec}", codec, 1_000_000, value_bytes=1024) for codec in ("none", "lz4"))
# Which reader of compressed blocks is the fastest depends on the data and on the batch size.
VARIED = tuple(
    Topic(f"{shape}-lz4-{batch // KIB}k", "lz4", 500_000, partitions=1, batch_bytes=batch, shape=shape)
    for shape in (
        "small100",
        "kb1",
        "access-log",
        "optional-json",
        "nested-json",
        "english",
        "avro",
        "tokens",
        "random",
        "zeros",
    )
    for batch in (16 * KIB, 64 * KIB)
)
# A reader's memory may depend on the codec and on the sizes of batches and segments.
MEMORY = tuple(
    Topic(
        f"memory-{codec}-{batch // KIB}k-{segment // MIB}m",
        codec,
        4_000_000,
        partitions=1,
        batch_bytes=batch,
        segment_bytes=segment,
    )
    for codec, batch, segment in [
        ("none", 64 * KIB, 64 * MIB),
        ("none", 64 * KIB, 1024 * MIB),
        ("none", 256 * KIB, 1024 * MIB),
        ("none", MIB, 64 * MIB),
        ("none", MIB, 1024 * MIB),
        ("zstd", 64 * KIB, 1024 * MIB),
        ("zstd", MIB, 1024 * MIB),
        ("gzip", MIB, 256 * MIB),
    ]
)
# For compaction: each key occurs ten times on average.
COMPACT = tuple(
    Topic(
        f"compact-p{partitions}-{codec}",
        codec,
        10_000_000,
        partitions=partitions,
        segment_bytes=64 * MIB,
        distinct_keys=1_000_000,
    )
    for partitions in (1, 4)
    for codec in ("none", "lz4")
)
# For the compaction of one partition with several cores.
GIANT = Topic("compact-giant", "none", 100_000_000, 1, distinct_keys=20_000_000)
# many_partitions.py makes its partitions of the first batch of this topic.
SEED = Topic("seed", "none", 1000, partitions=1, batch_bytes=KIB)
TOPICS = {topic.name: topic for topic in (*SMALL, *KB1, *VARIED, *MEMORY, *COMPACT, GIANT, SEED)}


@dataclass(frozen=True, slots=True)
class Corpus:
    """A broker's log directory and the number of records of each topic."""

    log_dir: Path
    records: dict[str, int]

    def partitions(self, topic: str) -> list[Path]:
        return [self.log_dir / f"{topic}-{number}" for number in range(TOPICS[topic].partitions)]

    def segments(self, topic: str) -> list[Path]:
        return [log for partition in self.partitions(topic) for log in sorted(partition.glob("*.log"))]

    def size_bytes(self, topic: str) -> int:
        return sum(log.stat().st_size for log in self.segments(topic))


def make(scale: float = 1.0, topics: Collection[Topic] = (*SMALL, *KB1, *VARIED, *MEMORY, SEED)) -> Corpus:
    """Return a corpus of these topics, each with `scale` times its records.

    Topics that are missing in the scratch directory are written first.
    """
    folder = scratch() / f"corpus-{scale:g}"
    log_dir, manifest = folder / "logs", folder / "made.json"
    requested = {topic.name: _scale(topic, scale) for topic in topics}
    stored = json.loads(manifest.read_text()) if manifest.exists() else {}
    written = {name: Topic(**topic) for name, topic in stored.items()}
    missing = [topic for name, topic in requested.items() if written.get(name) != topic]
    if any(topic.name in written for topic in missing):
        raise SystemExit(f"expected the present corpus in {folder}, found an older one; remove {folder}")
    if missing:
        with Broker(log_dir, heap="2g") as broker:
            for topic in _write(broker, missing):
                written[topic.name] = topic
                content = {name: asdict(topic) for name, topic in written.items()}
                manifest.write_text(json.dumps(content, indent=1))
    return Corpus(log_dir, {name: topic.records for name, topic in requested.items()})


def warm(paths: Iterable[Path]) -> None:
    """Read files once, so that the page cache holds them."""
    buffer = bytearray(MIB)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _write(broker: Broker, topics: Iterable[Topic]) -> Iterator[Topic]:
    """Write topics and yield each when it is complete."""
    class_path = compile_java([HERE / "java" / "CorpusWriter.java"], scratch() / "classes")
    topics = list(topics)
    shapes = scratch() / "shapes"
    if any(topic.shape for topic in topics):
        _write_shapes(shapes)
    with Jvm(class_path, "CorpusWriter", broker.bootstrap, options=["-Xmx1g"]) as writer:
        for topic in topics:
            *settings, shape = astuple(topic)
            values = shapes / shape if shape else "-"
            seconds = float(writer.ask(" ".join(str(setting) for setting in (*settings, values))))
            print(f"{topic.name}: {topic.records} records in {seconds:.1f} s", flush=True)
            yield topic


def _write_shapes(folder: Path) -> None:
    """Write a file of values for each shape with the kernel's generator."""
    manifest = ROOT / "kernel" / "Cargo.toml"
    cargo = ["cargo", "run", "--quiet", "--release", "--locked", "--manifest-path", str(manifest)]
    subprocess.run([*cargo, "-p", "kafka-log-arrow", "--example", "shapes", "--", str(folder)], check=True)


def _scale(topic: Topic, scale: float) -> Topic:
    records = max(
        topic.partitions * 1000, round(topic.records * scale) // topic.partitions * topic.partitions
    )
    if topic.distinct_keys:  # compaction needs several segments
        return replace(
            topic,
            records=records,
            distinct_keys=round(topic.distinct_keys * scale),
            segment_bytes=max(MIB, round(topic.segment_bytes * scale)),
        )
    return replace(topic, records=records)
