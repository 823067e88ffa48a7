"""The command line that all jobs share."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.config import InvalidConfigError, unknown_settings
from native_log.errors import KafkaLogError, error_message
from native_log.settings_file import merge_settings, parse_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

DATA_ERROR = 1
USAGE_ERROR = 2
MAX_SHOWN_ROWS = 1000


def run(
    job: Callable[..., DataFrame],
    name: str,
    description: str,
    arguments: Sequence[str],
    *,
    shown_columns: Sequence[str],
    summarize: Callable[[pa.Table, bool], str],
    outcome_column: str,
) -> int:
    """Parse the arguments, run the job and print its rows.

    Args:
        job: called as `job(spark, paths, topics, config, now_ms, dry_run, exclude_topics=...)`; returns one
            row for each partition or segment.
        shown_columns: the columns to print.
        summarize: returns the last line to print, from all rows and whether it was a dry run.
        outcome_column: the column that is "failed" if a partition failed. The column `reason` says why.

    Returns:
        The exit code: 0 for success, 1 (DATA_ERROR) if a partition or a directory failed, 2 (USAGE_ERROR) for
        an invalid command line or setting.
    """
    parser = _parser(name, description)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {name}: %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        config = merge_settings(options.conf_file, dict(options.conf))
    except (OSError, ValueError) as error:
        parser.error(error_message(error))
    for setting in unknown_settings(setting for setting, _ in options.conf):
        _print_message(name, f"{setting} is not a setting of this job and has no effect")

    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(f"kafkalog {name}").getOrCreate()
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("WARN")  # so that Spark's log does not hide the job's messages
    try:
        rows = job(
            *(spark, options.paths, options.topics, config, options.now_ms, options.dry_run),
            exclude_topics=options.exclude_topics,
        )
        rows.select(*shown_columns).show(MAX_SHOWN_ROWS, truncate=False)
        table = rows.toArrow()
    except (KafkaLogError, OSError) as error:
        _print_message(name, error_message(error))
        return DATA_ERROR
    except ValueError as error:  # an invalid setting
        _print_message(name, error)
        return USAGE_ERROR
    finally:
        spark.stop()
    failed = [row for row in table.to_pylist() if row[outcome_column] == "failed"]
    for row in failed:
        _print_message(name, f"{row['topic']}-{row['partition']}: {row['reason']}")
    _print_message(name, summarize(table, options.dry_run))
    return DATA_ERROR if failed else 0


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument(
        "paths",
        metavar="LOGDIR",
        nargs="+",
        help="a log directory or a partition directory; executors must see it under the same path",
    )
    parser.add_argument(
        "--topic",
        dest="topics",
        metavar="TOPIC",
        action="append",
        help="process only this topic (may be repeated); default: all except Kafka's internal topics",
    )
    parser.add_argument(
        "--exclude-topic",
        dest="exclude_topics",
        metavar="TOPIC",
        action="append",
        default=[],
        help="leave this topic out (may be repeated)",
    )
    parser.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="a setting, by the name of a topic or broker setting (may be repeated); overrides --conf-file",
    )
    parser.add_argument(
        "--conf-file",
        metavar="FILE",
        type=Path,
        help="a file of settings, one NAME=VALUE per line, as in conf/",
    )
    parser.add_argument(
        "--now-ms",
        metavar="MS",
        type=int,
        help="the time from which ages are measured, in epoch ms; default: now",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing, and report what would be done"
    )
    return parser


def _setting(text: str) -> tuple[str, str]:
    try:
        return parse_setting(text)
    except InvalidConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _print_message(name: str, message: object) -> None:
    print(f"{name}: {' '.join(str(message).split())}", file=sys.stderr)  # noqa: T201
