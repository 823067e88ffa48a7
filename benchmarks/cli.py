"""The commands of `python -m benchmarks`."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from benchmarks import (
    compaction,
    compaction_parts,
    housekeeping,
    kernel,
    latency,
    memory,
    producer,
    profiles,
    quick,
    report,
    spark,
    streams,
    tools,
    write,
)
from benchmarks import corpus as corpora
from benchmarks.corpus import MEMORY, Corpus
from benchmarks.memory import Growth
from benchmarks.paths import HERE, RESULTS, scratch
from benchmarks.readers import SEVEN_COLUMNS
from benchmarks.results import load, save
from benchmarks.timing import Measurement
from native_log.records import IMPLEMENTATION

MANY_PARTITIONS = 10_000
STAGES = ("kernel", "spark", "stream", "latency", "memory", "write", "producer", "clean", "tools")


@click.group(invoke_without_command=True)
@click.option("--scale", default=1.0, show_default=True, help="Factor for the number of records.")
@click.option("--runs", default=5, show_default=True, help="Number of timed runs of each contender.")
@click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="Spark setting for all sessions; repeatable."
)
@click.option(
    "--stage", "stages", multiple=True, type=click.Choice(STAGES), help="Run only this stage; repeatable."
)
@click.option(
    "--quick", "is_quick", is_flag=True, help="Measure the principal ratios only, in less than ten minutes."
)
@click.pass_context
def main(
    context: click.Context,
    scale: float,
    runs: int,
    conf: tuple[str, ...],
    stages: tuple[str, ...],
    is_quick: bool,
) -> None:
    """Make the corpus, measure kafkalog and its peers, and write RESULTS.md.

    A --scale other than 1 only checks that the benchmarks run: they do not wait for a quiet machine, and the
    results go to the scratch directory.
    """
    if context.invoked_subcommand is not None:
        return
    if IMPLEMENTATION != "kernel":
        raise click.ClickException("expected the compiled kernel, found none; run `make kernel`")
    if scale != 1:
        os.environ["KAFKALOG_BENCH_NO_WAIT"] = "1"
    settings = dict(setting.split("=", 1) for setting in conf)
    if is_quick:
        _measure_quickly(settings)
        return
    folder = RESULTS if scale == 1 else scratch() / f"results-{scale:g}"
    for stage in stages or STAGES:
        click.echo(f"== {stage}")
        corpus = corpora.make(scale, tools.CORPUS) if stage == "tools" else corpora.make(scale)
        _save(folder, stage, _run_stage(stage, corpus, scale, runs, settings))
    _write_report(folder, HERE / "RESULTS.md" if scale == 1 else folder / "RESULTS.md")


def _measure_quickly(conf: dict[str, str]) -> None:
    """Print the principal ratios. With fewer records, fixed costs weigh more than in RESULTS.md."""
    os.environ["KAFKALOG_BENCH_NO_WAIT"] = "1"
    folder = scratch() / "results-quick"
    _save(folder, "quick", quick.measure(corpora.make(quick.SCALE, quick.TOPICS), conf))
    click.echo(f"\nWith {quick.SCALE:g} of the records, fixed costs weigh more than in RESULTS.md:\n")
    results = load(folder)["quick"]
    click.echo("\n".join(report.target_lines(results.measurements, results.growths)))
    _write_report(folder, folder / "RESULTS.md")


def _save(folder: Path, stage: str, results: Iterable[Measurement | Growth]) -> None:
    """Print results as they come, and store them."""
    measurements: list[Measurement] = []
    growths: list[Growth] = []
    for result in results:
        if isinstance(result, Measurement):
            measurements.append(result)
            click.echo(_measurement_line(result))
        else:
            growths.append(result)
            growth = f"{result.grown_bytes / 2**20:8.0f} MiB"
            click.echo(f"{result.contender:40} {result.corpus:24} {growth}")
    save(folder, stage, measurements, growths)


def _measurement_line(result: Measurement) -> str:
    seconds = f"{result.median_seconds:8.4f} s"
    rate = f"{result.rows_per_second / 1e6:8.3f} M rows/s" if result.rows > 1000 else ""
    return f"{result.work:40} {result.corpus:24} {result.contender:32} {seconds} {rate}"


def _run_stage(
    stage: str, corpus: Corpus, scale: float, runs: int, conf: dict[str, str]
) -> Iterator[Measurement | Growth]:
    many = max(100, round(MANY_PARTITIONS * scale))
    steps: dict[str, list[Callable[[], Iterable[Measurement | Growth]]]] = {
        "kernel": [lambda: kernel.measure(corpus, runs)],
        "spark": [lambda: spark.measure(corpus, min(runs, 3), conf)],
        "stream": [
            lambda: streams.measure(corpus, scale, min(runs, 3), conf),
            lambda: streams.measure_idle(corpus, scratch(), many, scale),
            lambda: streams.measure_soak(scale),
        ],
        "latency": [
            lambda: latency.measure_first_rows(corpus, min(runs, 3), conf),
            lambda: latency.measure_planning(corpus, scratch(), many, min(runs, 3), conf),
        ],
        "memory": [
            lambda: (
                memory.measure_partition_log(corpus.partitions(topic.name)[0], topic.name, SEVEN_COLUMNS)
                for topic in MEMORY
            ),
            lambda: spark.measure_memory(corpus, [topic.name for topic in MEMORY], conf),
        ],
        "write": [
            lambda: write.measure(corpus, scale, runs, conf),
            lambda: housekeeping.measure_commits(scale, min(runs, 3)),
        ],
        "producer": [lambda: producer.measure(corpus, scale, runs)],
        "clean": [
            lambda: compaction_parts.measure(corpora.make(scale, compaction.TOPICS), runs),
            lambda: compaction.measure(corpora.make(scale, compaction.TOPICS), min(runs, 3), conf),
            lambda: housekeeping.measure_retention(corpus, many, min(runs, 3), conf),
        ],
        "tools": [
            lambda: tools.measure(corpus, min(runs, 3), conf),
            lambda: tools.measure_report(corpus, many, min(runs, 3)),
        ],
    }
    for step in steps[stage]:
        yield from step()


@main.command("report")
@click.argument("folder", type=click.Path(path_type=Path, exists=True), default=RESULTS)
def report_command(folder: Path) -> None:
    """Write RESULTS.md from results/*.json."""
    _write_report(folder, (HERE if folder == RESULTS else folder) / "RESULTS.md")


@main.command()
@click.argument("kind", type=click.Choice(profiles.KINDS))
@click.option("--topic", default="small100-none", show_default=True)
@click.option("--columns", default=",".join(SEVEN_COLUMNS), show_default=True)
@click.option("--scale", default=1.0, show_default=True)
@click.option(
    "--seconds", default=5.0, show_default=True, help="Repeat the work for this time (kernel only)."
)
def profile(kind: str, topic: str, columns: str, scale: float, seconds: float) -> None:
    """Profile the kernel (perf), PartitionLog.read (cProfile) or Spark's Python workers (py-spy)."""
    profiles.show(kind, corpora.make(scale), topic, columns.split(","), seconds)


def _write_report(results: Path, output: Path) -> None:
    output.write_text(report.render(load(results)))
    click.echo(f"wrote {output}")
