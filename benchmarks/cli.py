"""The commands of `python -m benchmarks`."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from benchmarks import (
    clean,
    cleaner_parts,
    growth,
    housekeeping,
    kernel,
    latency,
    profiles,
    report,
    spark,
    write,
)
from benchmarks import corpus as corpora
from benchmarks.corpus import MEMORY, Corpus
from benchmarks.growth import Growth
from benchmarks.measure import Measurement
from benchmarks.places import HERE, RESULTS, scratch
from benchmarks.readers import SEVEN_COLUMNS
from benchmarks.results import load, save
from native_log.records import IMPLEMENTATION

MANY_PARTITIONS = 10_000
STAGES = ("kernel", "spark", "latency", "memory", "write", "clean")


@click.group(invoke_without_command=True)
@click.option("--scale", default=1.0, show_default=True, help="Times the records of the full corpus.")
@click.option("--runs", default=5, show_default=True, help="Timed runs of each contender.")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting for all sessions.")
@click.option(
    "--stage", "stages", multiple=True, type=click.Choice(STAGES), help="Only this one; repeatable."
)
@click.pass_context
def main(
    context: click.Context, scale: float, runs: int, conf: tuple[str, ...], stages: tuple[str, ...]
) -> None:
    """Make the corpus, measure kafkalog beside its peers, and write RESULTS.md.

    With another --scale than 1 it is a check that all runs: nothing waits for a quiet machine, and the
    results go to the scratch folder.
    """
    if context.invoked_subcommand is not None:
        return
    if IMPLEMENTATION != "kernel":
        raise click.ClickException("the compiled kernel is not there: `make kernel` builds it")
    if scale != 1:
        os.environ["KAFKALOG_BENCH_NO_WAIT"] = "1"
    settings = dict(one.split("=", 1) for one in conf)
    folder = RESULTS if scale == 1 else scratch() / f"results-{scale:g}"
    corpus = corpora.make(scale)
    for stage in stages or STAGES:
        click.echo(f"== {stage}")
        measurements: list[Measurement] = []
        growths: list[Growth] = []
        for one in _stage(stage, corpus, scale, runs, settings):
            if isinstance(one, Measurement):
                measurements.append(one)
                rate = f"{one.rows_per_second / 1e6:8.3f} M rows/s" if one.rows > 1000 else ""
                click.echo(
                    f"{one.work:40} {one.corpus:24} {one.contender:32} {one.median_seconds:8.4f} s {rate}"
                )
            else:
                growths.append(one)
                click.echo(f"{one.contender:40} {one.corpus:24} {one.grown_bytes / 2**20:8.0f} MiB")
        save(folder, stage, measurements, growths)
    _write_report(folder, HERE / "RESULTS.md" if scale == 1 else folder / "RESULTS.md")


def _stage(
    stage: str, corpus: Corpus, scale: float, runs: int, conf: dict[str, str]
) -> Iterator[Measurement | Growth]:
    many = max(100, round(MANY_PARTITIONS * scale))
    steps: dict[str, list[Callable[[], Iterator[Measurement | Growth]]]] = {
        "kernel": [lambda: kernel.measure(corpus, runs)],
        "spark": [lambda: spark.measure(corpus, min(runs, 3), conf)],
        "latency": [
            lambda: latency.first_row(corpus, min(runs, 3), conf),
            lambda: latency.planning(corpus, scratch(), many, min(runs, 3), conf),
        ],
        "memory": [
            lambda: (
                growth.of_partition_log(corpus.partitions(topic.name)[0], topic.name, SEVEN_COLUMNS)
                for topic in MEMORY
            ),
            lambda: spark.memory(corpus, [topic.name for topic in MEMORY], conf),
        ],
        "write": [
            lambda: write.measure(corpus, runs, conf),
            lambda: housekeeping.commits(scale, min(runs, 3)),
        ],
        "clean": [
            lambda: cleaner_parts.measure(corpora.make(scale, clean.TOPICS), runs),
            lambda: clean.measure(corpora.make(scale, clean.TOPICS), min(runs, 3), conf),
            lambda: housekeeping.retention(corpus, many, min(runs, 3), conf),
        ],
    }
    for step in steps[stage]:
        yield from step()


@main.command("report")
@click.argument("folder", type=click.Path(path_type=Path, exists=True), default=RESULTS)
def report_command(folder: Path) -> None:
    """Write RESULTS.md again from results/*.json."""
    _write_report(folder, (HERE if folder == RESULTS else folder) / "RESULTS.md")


@main.command()
@click.argument("what", type=click.Choice(profiles.KINDS))
@click.option("--topic", default="small100-none", show_default=True)
@click.option("--columns", default=",".join(SEVEN_COLUMNS), show_default=True)
@click.option("--scale", default=1.0, show_default=True)
@click.option("--seconds", default=5.0, show_default=True, help="For how long to repeat the work.")
def profile(what: str, topic: str, columns: str, scale: float, seconds: float) -> None:
    """Show where the time goes: of the kernel (perf), of PartitionLog.read or of a Spark worker (py-spy)."""
    profiles.show(what, corpora.make(scale), topic, columns.split(","), seconds)


def _write_report(results: Path, into: Path) -> None:
    into.write_text(report.render(load(results)))
    click.echo(f"written: {into}")
