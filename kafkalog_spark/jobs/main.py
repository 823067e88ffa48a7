"""The command `kafkalog-spark`: find a job for spark-submit, or run it in this process."""

from __future__ import annotations

import argparse
import runpy
import sys
from importlib.util import find_spec

JOBS = ("compact", "retain")


def main() -> None:
    """Print the path of a job, or run it. A job exits with its own code, a wrong command line with 2."""
    parser = argparse.ArgumentParser(
        prog="kafkalog-spark",
        description="Run a job with Spark. On a cluster: "
        'spark-submit "$(kafkalog-spark path compact)" LOGDIR',
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    path = commands.add_parser("path", help="print the path of a job's program, for spark-submit")
    path.add_argument("job", choices=JOBS)
    for job in JOBS:
        # The job parses its own arguments, --help included.
        commands.add_parser(job, add_help=False, help=f"run {job} in this process, with Spark's own settings")
    options, arguments = parser.parse_known_args()
    if options.command != "path":
        sys.argv = [options.command, *arguments]
        runpy.run_module(f"kafkalog_spark.jobs.{options.command}", run_name="__main__")
        return
    if arguments:
        parser.error(f"unrecognized arguments: {' '.join(arguments)}")
    spec = find_spec(f"kafkalog_spark.jobs.{options.job}")
    assert spec is not None
    print(spec.origin)  # noqa: T201
