"""Spark reading values from a bucket, beside the same rows as Parquet through s3a.

`python -m benchmarks.object_store_spark` needs Java, Maven and Go. It fetches Hadoop's S3 client, of 0.7 GB,
once.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import obstore

from benchmarks.filters import write_log, write_rows
from benchmarks.http_proxy import HttpProxy
from benchmarks.jvm import jars
from benchmarks.object_store import BYTES_PER_SECOND, LATENCY_SECONDS, store_of
from benchmarks.paths import HERE
from benchmarks.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from benchmarks.spark_session import session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

RUNS = 3
CORES = 2
S3A = HERE / "maven" / "s3a.xml"


def main() -> None:
    connector = [str(jar) for jar in jars(S3A).glob("*.jar")]
    with tempfile.TemporaryDirectory() as name, S3Server(Path(name) / "s3") as server:
        bucket = server.root / "bench"
        bucket.mkdir()
        for codec in ("none", "zstd"):
            write_log(bucket / codec, codec)
        parquet, _ = write_rows(Path(name), bucket / "none")
        # s3a needs the ETag that an upload gives a file.
        obstore.put(store_of(server.endpoint), "rows.parquet", parquet)
        spark = session(CORES, {}, connector)
        print("| Where | Contender | Seconds | Ratio |\n|---|---|--:|--:|")
        compare(spark, "loopback", server.endpoint)
        with HttpProxy(
            server.port, latency_seconds=LATENCY_SECONDS, bytes_per_second=BYTES_PER_SECOND
        ) as slow:
            compare(spark, "30 ms, 80 MB/s for each connection", slow.endpoint)
        spark.stop()


def compare(spark: SparkSession, where: str, endpoint: str) -> None:
    """Print the median time of a query that reads all values."""
    options = {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }

    def logs(codec: str) -> DataFrame:
        reader = spark.read.format("kafkalog").options(**options, columns="value")
        return reader.load(f"s3a://bench/{codec}")

    contenders: dict[str, Callable[[], DataFrame]] = {
        "Parquet (zstd), s3a": lambda: spark.read.options(**options).parquet("s3a://bench/rows.parquet"),
        "kafkalog, uncompressed": lambda: logs("none"),
        "kafkalog, zstd": lambda: logs("zstd"),
    }
    reference = 0.0
    for name, frame in contenders.items():
        measure(frame)  # starts workers, and lets the JVM compile
        seconds = statistics.median(measure(frame) for _ in range(RUNS))
        reference = reference or seconds
        print(f"| {where} | {name} | {seconds:.2f} | {reference / seconds:.2f} |", flush=True)


def measure(frame: Callable[[], DataFrame]) -> float:
    started = time.perf_counter()
    frame().select("value").write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
