"""Scans, filters, searches and counts, beside what a user would do instead: `python -m benchmarks.filters`.

It needs no corpus: it writes logs of 0.9 GB with kafkalog, and the same rows as Parquet and as lines. With
`rg` in the PATH, the search is compared with ripgrep. With `kcat`, the filter for a key is compared with kcat
and grep, which read from a broker that has the same files.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import native_log
from benchmarks.broker import Broker
from benchmarks.readers import SEVEN_COLUMNS
from native_log import LogDir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUNS = 5
PARTITIONS = 4
ROWS_OF_A_PARTITION = 1_800_000
_CHUNK = 100_000
START = datetime(2026, 11, 1, tzinfo=UTC)
DAY_MS = 86_400_000
STATES = ("created", "paid", "shipped", "refunded")
KEY = b"key-000000900000"
KEY_FILTER = f"key = '{KEY.decode()}'"
PATTERN = r'"state": "refunded", "total": 9\d\.99'


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for codec in ("none", "lz4"):
            write_log(folder / codec, codec)
        parquet, lines = write_rows(folder, folder / "none")
        print("| Work | Contender | Seconds | Ratio |\n|---|---|--:|--:|")
        scans(folder / "none")
        compare(
            "Polars: group by, two columns",
            {
                "Parquet (zstd)": lambda: group_by(pl.scan_parquet(parquet)),
                "scan_polars": lambda: group_by(native_log.scan_polars(folder / "none", "t")),
            },
        )
        one_hour(folder / "none")
        for codec in ("none", "lz4"):
            one_key(folder / codec, codec)
            if kcat := shutil.which("kcat"):
                one_key_by_kcat(folder / codec, codec, kcat)
        search(folder / "none", lines)
        compare(
            "count by partition",
            {
                "rows of Parquet": lambda: count_parquet(parquet),
                "reading one column": lambda: (
                    native_log.scan(folder / "none", "t", ["offset"]).to_table().num_rows
                ),
                "count_rows": lambda: native_log.scan(folder / "none", "t").count_rows(),
            },
        )
        spark_work(folder / "none", parquet)


def write_log(folder: Path, codec: str, segment_bytes: int = 256 << 20) -> None:
    """Write a topic of one day: JSON values of about 100 bytes, batches of 64 KiB."""
    random = np.random.default_rng(1)
    with LogDir.create(folder) as logs:
        logs.create_topic("t", PARTITIONS, config={"segment.bytes": segment_bytes})
        for number in range(PARTITIONS):
            log = logs.partition("t", number)
            for first in range(0, ROWS_OF_A_PARTITION, _CHUNK):
                rows = range(first, first + _CHUNK)
                totals, states = random.integers(0, 100_000, _CHUNK), random.integers(0, len(STATES), _CHUNK)
                values = [
                    b'{"order": %d, "state": "%s", "total": %d.%02d, "city": "Trieste", "comment": "%s"}'
                    % (row, STATES[state].encode(), total // 100, total % 100, random.bytes(8).hex().encode())
                    for row, state, total in zip(rows, states, totals, strict=True)
                ]
                times = np.array(rows) * DAY_MS // ROWS_OF_A_PARTITION + int(START.timestamp() * 1000)
                log.append(
                    pa.table(
                        {
                            "key": pa.array([b"key-%012d" % (row % 1_000_000) for row in rows], pa.binary()),
                            "value": pa.array(values, pa.binary()),
                            "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
                        }
                    ),
                    compression=codec,
                    batch_size=64 << 10,
                )


def write_rows(folder: Path, logs: Path) -> tuple[Path, Path]:
    """Write the rows as Parquet, and the values as lines."""
    parquet, lines = folder / "rows.parquet", folder / "values.txt"
    scan = native_log.scan(logs, "t", SEVEN_COLUMNS)
    with pq.ParquetWriter(parquet, scan.schema, compression="zstd") as writer, lines.open("wb") as text:
        for batch in scan.batches():
            writer.write_batch(batch)
            for value in batch.column("value").to_pylist():
                text.write(value + b"\n")
    return parquet, lines


def compare(
    work: str,
    contenders: dict[str, Callable[[], object]],
    runs: int = RUNS,
    prepare: Callable[[], object] = lambda: None,
) -> None:
    """Print the median of each contender, all run in turn, and the ratio of the first one's time to it.

    `prepare` is called before each run, and is not timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, run in contenders.items():
            prepare()
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    reference = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"| {work} | {name} | {median:.3f} | {reference / median:.2f} |", flush=True)


def scans(folder: Path) -> None:
    """Compare one thread with several. Copying the bytes shows what memory allows."""

    def read(threads: int) -> int:
        scan = native_log.scan(folder, "t", SEVEN_COLUMNS, threads=threads)
        return sum(batch.num_rows for batch in scan.batches())

    compare("scan: seven columns", {"1 thread": lambda: read(1), "all cores": lambda: read(cores())})
    compare(
        "reading the files",
        {"1 thread": lambda: read_files(folder, 1), "all cores": lambda: read_files(folder, cores())},
    )


def read_files(folder: Path, threads: int) -> int:
    from concurrent.futures import ThreadPoolExecutor

    def read(file: Path) -> int:
        size_bytes, buffer = 0, bytearray(1 << 20)
        with file.open("rb", buffering=0) as stream:
            while count := stream.readinto(buffer):
                size_bytes += count
        return size_bytes

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(read, sorted(folder.glob("t-*/*.log"))))


def cores() -> int:
    from native_log.system import available_cores

    return available_cores()


def group_by(frame: pl.LazyFrame) -> pl.DataFrame:
    hour = pl.col("timestamp").dt.truncate("1h")
    return frame.group_by("partition", hour).len().collect()


def one_hour(folder: Path) -> None:
    first = START + timedelta(hours=13)
    last = first + timedelta(hours=1)
    whole = native_log.scan(folder, "t", SEVEN_COLUMNS)
    in_hour = (pc.field("timestamp") >= pa.scalar(first)) & (pc.field("timestamp") < pa.scalar(last))
    compare(
        "one hour of a day",
        {
            "reading all, then filtering": lambda: sum(b.filter(in_hour).num_rows for b in whole.batches()),
            "filter": lambda: native_log.scan(folder, "t", SEVEN_COLUMNS, filter=in_hour).to_table().num_rows,
            "start and end": lambda: (
                native_log.scan(folder, "t", SEVEN_COLUMNS, start=first, end=last).to_table().num_rows
            ),
            "Polars: filter": lambda: (
                native_log.scan_polars(folder, "t")
                .filter(pl.col("timestamp").is_between(first, last, closed="left"))
                .select(SEVEN_COLUMNS)
                .collect()
                .height
            ),
        },
    )


def one_key(folder: Path, codec: str) -> None:
    def read(columns: list[str], **arguments: str) -> int:
        return native_log.scan(folder, "t", columns, threads=1, **arguments).to_table().num_rows

    def compare_column() -> int:
        scan = native_log.scan(folder, "t", ["key"], threads=1)
        return sum(pc.sum(pc.equal(batch.column("key"), pa.scalar(KEY))).as_py() for batch in scan.batches())

    compare(
        f"one key, {codec}, one core",
        {
            "reading the key column and comparing": compare_column,
            "filter": lambda: read(SEVEN_COLUMNS, filter=KEY_FILTER),
            "reading the bytes and their checksums only": lambda: read(["key"], filter="producerId = 7"),
        },
    )


def one_key_by_kcat(folder: Path, codec: str, kcat: str) -> None:
    """Compare with what needs a broker. Its work and that of grep take the other cores."""
    with Broker(folder.with_name(f"broker-{codec}")) as broker:
        address = ("--bootstrap-server", broker.bootstrap)
        topic = ("--create", "--topic", "t", "--partitions", str(PARTITIONS))
        broker.run_tool("org.apache.kafka.tools.TopicCommand", *address, *topic)
    for file in folder.glob("t-*/0*"):
        shutil.copyfile(file, broker.log_dir / file.parent.name / file.name)
    with broker:
        read = f"{kcat} -C -q -e -b {broker.bootstrap} -t t -o beginning -K '\t' | grep -c '^{KEY.decode()}'"
        found = subprocess.run(read, shell=True, check=True, capture_output=True, text=True).stdout
        filtered = native_log.scan(folder, "t", SEVEN_COLUMNS, threads=1, filter=KEY_FILTER)
        assert int(found) == filtered.to_table().num_rows
        compare(
            f"one key, {codec}, with a broker",
            {
                "kcat and grep": lambda: subprocess.run(
                    read, shell=True, check=True, stdout=subprocess.DEVNULL
                ),
                "filter, one core, no broker": lambda: filtered.to_table().num_rows,
            },
        )


def search(folder: Path, lines: Path) -> None:
    contenders: dict[str, Callable[[], object]] = {}
    if (program := shutil.which("rg")) is not None:
        command = [program, "-c", "-e", PATTERN, str(lines)]
        contenders["ripgrep, values as lines"] = lambda: subprocess.run(
            command, stdout=subprocess.DEVNULL, check=True
        )
    contenders["native_log.search"] = lambda: native_log.search(
        folder, "t", ["offset"], regex=PATTERN, fields=["value"]
    ).to_table()
    kafkalog = [sys.executable, "-m", "native_log", "grep", "-c", "--in", "value", PATTERN, str(folder)]
    contenders["kafkalog grep, start included"] = lambda: subprocess.run(
        kafkalog, stdout=subprocess.DEVNULL, check=True
    )
    compare("a regular expression in values, all cores", contenders)


def spark_work(folder: Path, parquet: Path) -> None:
    """Count JSON values by a field, and records by partition, with local[2]."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    from benchmarks.toy import ToySource
    from kafkalog_spark import map_in_arrow

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    path = str(folder)

    def from_json(**options: str) -> None:
        frame = spark.read.format("kafkalog").options(**options).load(path)
        state = F.from_json(F.col("value").cast("string"), "state string").state
        frame.groupBy(state).count().collect()

    def mapped() -> None:
        states = map_in_arrow(spark, path, count_states, "state string, n bigint", columns="value")
        states.groupBy("state").sum("n").collect()

    compare(
        "Spark: count JSON values by a field",
        {
            "read, from_json": from_json,
            "read of one column, from_json": lambda: from_json(columns="value"),
            "map_in_arrow": mapped,
        },
        runs=3,
    )
    read = spark.read.format("kafkalog")
    counts = spark.read.format("kafkalog").option("view", "counts")
    spark.dataSource.register(ToySource)
    least = spark.read.format(ToySource.name()).option("rows", PARTITIONS).option("partitions", 1)
    compare(
        "Spark: count by partition",
        {
            "count of the rows": lambda: read.load(path).groupBy("partition").count().collect(),
            "count of the rows as Parquet": lambda: (
                spark.read.parquet(str(parquet)).groupBy("partition").count().collect()
            ),
            "view=counts": lambda: counts.load(path).collect(),
            "a Python data source of as many rows": lambda: least.load().collect(),
        },
    )
    spark.stop()


def count_states(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    import io

    import pyarrow.json as pj

    schema = pa.schema([("state", pa.string())])
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for batch in batches:
        lines = io.BytesIO(b"\n".join(batch.column("value").to_pylist()))
        counts = pc.value_counts(pj.read_json(lines, parse_options=options)["state"].combine_chunks())
        yield pa.table({"state": counts.field("values"), "n": counts.field("counts")})


def count_parquet(parquet: Path) -> int:
    return pl.scan_parquet(parquet).group_by("partition").len().collect().height


if __name__ == "__main__":
    main()
