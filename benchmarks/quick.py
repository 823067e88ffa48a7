"""The principal ratios in a few minutes: `python -m benchmarks --quick`."""

from collections.abc import Iterator, Mapping

from benchmarks import compaction, kernel, producer, spark
from benchmarks.corpus import COMPACT, KB1, SEED, SMALL, Corpus
from benchmarks.memory import Growth
from benchmarks.timing import Measurement

SCALE = 0.125
RUNS = 3
TOPICS = (*SMALL, *KB1, COMPACT[0], SEED)
SPARK_TOPIC = "small100-none"


def measure(corpus: Corpus, conf: Mapping[str, str]) -> Iterator[Measurement | Growth]:
    """Measure decoding, Spark with two cores, producing one by one, and the compaction of one partition."""
    yield from kernel.measure_beside_java(corpus, (*SMALL, *KB1), RUNS)
    yield from spark.measure(corpus, RUNS, conf, (SPARK_TOPIC,), (2,))
    yield from producer.measure_one_by_one(corpus, SCALE, RUNS)
    yield from compaction.measure_beside_cleaner(corpus, COMPACT[:1], RUNS)
