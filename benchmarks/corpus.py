"""What is read: topics that a real producer sent to a real broker, which was then stopped cleanly."""

import json
import subprocess
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

from benchmarks.broker import Broker
from benchmarks.jvm import Jvm, compiled
from benchmarks.places import HERE, ROOT, scratch

KIB, MIB = 1024, 1024 * 1024
CODECS = ("none", "lz4", "zstd", "snappy", "gzip")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and what is sent to it. In the order that CorpusWriter.java reads."""

    name: str
    codec: str
    records: int
    partitions: int = 4
    value_bytes: int = 100  # and a key of 16
    batch_bytes: int = 64 * KIB
    segment_bytes: int = 256 * MIB
    distinct_keys: int = 0  # 0: no key twice
    shape: str = ""  # of the values: see kernel/arrow/benches/support/shapes.rs; "": CorpusWriter's own


SMALL = tuple(Topic(f"small100-{codec}", codec, 8_000_000) for codec in CODECS)
KB1 = tuple(Topic(f"kb1-{codec}", codec, 1_000_000, value_bytes=1024) for codec in ("none", "lz4"))
# Data of many shapes, in batches of the default size and in larger ones: which of two readers of compressed
# blocks is faster depends on both.
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
# For the memory of a reader: from many small batches to few large ones, in small segments and in large ones.
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
# For the cleaner: each key ten times on average.
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
# For compaction by all cores inside one partition.
GIANT = Topic("compact-giant", "none", 100_000_000, 1, distinct_keys=20_000_000)
# One small batch of it is what many.py makes its partitions of.
SEED = Topic("seed", "none", 1000, partitions=1, batch_bytes=KIB)
TOPICS = {topic.name: topic for topic in (*SMALL, *KB1, *VARIED, *MEMORY, *COMPACT, GIANT, SEED)}


@dataclass(frozen=True, slots=True)
class Corpus:
    """A broker's log directory and how many records each of its topics was given."""

    log_dir: Path
    records: dict[str, int]

    def partitions(self, topic: str) -> list[Path]:
        return [self.log_dir / f"{topic}-{number}" for number in range(TOPICS[topic].partitions)]

    def segments(self, topic: str) -> list[Path]:
        return [log for partition in self.partitions(topic) for log in sorted(partition.glob("*.log"))]

    def size_bytes(self, topic: str) -> int:
        return sum(log.stat().st_size for log in self.segments(topic))


def make(scale: float = 1.0, topics: Collection[Topic] = (*SMALL, *KB1, *VARIED, *MEMORY, SEED)) -> Corpus:
    """These topics with `scale` times their records: from the scratch folder, or made now."""
    folder = scratch() / f"corpus-{scale:g}"
    log_dir, made = folder / "logs", folder / "made.json"
    wanted = {topic.name: asdict(_scaled(topic, scale)) for topic in topics}
    told = json.loads(made.read_text()) if made.exists() else {}
    done = {name: asdict(Topic(**topic)) for name, topic in told.items()}
    missing = [Topic(**topic) for name, topic in wanted.items() if done.get(name) != topic]
    if any(topic.name in done for topic in missing):
        raise SystemExit(f"the corpus in {folder} was made otherwise: remove it, and it is made again")
    if missing:
        with Broker(log_dir, heap="2g") as broker:
            for topic in _written(broker, missing):
                done[topic.name] = asdict(topic)
                made.write_text(json.dumps(done, indent=1))
    return Corpus(log_dir, {name: topic["records"] for name, topic in wanted.items()})


def warm(paths: Iterable[Path]) -> None:
    """Read files once, so that they lie in the page cache."""
    buffer = bytearray(MIB)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _written(broker: Broker, topics: Iterable[Topic]) -> Iterator[Topic]:
    class_path = compiled([HERE / "java" / "CorpusWriter.java"], scratch() / "classes")
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
    """Have the kernel's generator write a file of values for each shape."""
    manifest = ROOT / "kernel" / "Cargo.toml"
    cargo = ["cargo", "run", "--quiet", "--release", "--locked", "--manifest-path", str(manifest)]
    subprocess.run([*cargo, "-p", "kafka-log-arrow", "--example", "shapes", "--", str(folder)], check=True)


def _scaled(topic: Topic, scale: float) -> Topic:
    records = max(
        topic.partitions * 1000, round(topic.records * scale) // topic.partitions * topic.partitions
    )
    if topic.distinct_keys:  # the cleaner wants several segments
        return replace(
            topic,
            records=records,
            distinct_keys=round(topic.distinct_keys * scale),
            segment_bytes=max(MIB, round(topic.segment_bytes * scale)),
        )
    return replace(topic, records=records)
