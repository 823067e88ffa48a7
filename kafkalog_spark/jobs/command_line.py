"""The command line that the jobs have in common."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.config import unknown_settings
from native_log.errors import KafkaLogError, error_message
from native_log.settings_file import merge_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

DATA_ERROR = 1
USAGE_ERROR = 2
ROWS_SHOWN = 1000


def run(
    job: Callable[..., DataFrame],
    name: str,
    description: str,
    arguments: Sequence[str],
    *,
    shown: Sequence[str],
    summary: Callable[[pa.Table, bool], str],
    outcome: str,
) -> int:
    """Run `job(spark, paths, topics, config, now_ms, dry_run, exclude_topics=...)` as the arguments say.

    Returns the exit code: 0: done; 1: something is wrong with what lies on disk, were it in one partition;
    2: with the command line.

    Args:
        shown: columns of its rows that are shown.
        summary: of its rows, and whether it was a dry run; said at the end.
        outcome: the column that says "failed" where a partition failed; `reason` says why.
    """
    parser = _parser(name, description)
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {name}: %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        config = merge_settings(asked.conf_file, dict(asked.conf))
    except (OSError, ValueError) as error:
        parser.error(error_message(error))
    for setting in unknown_settings(setting for setting, _ in asked.conf):
        _say(name, f"{setting} is no setting of this job: it has no effect")

    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(f"kafkalog {name}").getOrCreate()
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("WARN")  # what the job says would be lost among Spark's own words
    try:
        rows = job(
            *(spark, asked.paths, asked.topics, config, asked.now_ms, asked.dry_run),
            exclude_topics=asked.exclude_topics,
        )
        rows.select(*shown).show(ROWS_SHOWN, truncate=False)
        told = rows.toArrow()
    except (KafkaLogError, OSError) as error:
        _say(name, error_message(error))
        return DATA_ERROR
    except ValueError as error:  # a setting that cannot be meant
        _say(name, error)
        return USAGE_ERROR
    finally:
        spark.stop()
    failed = [row for row in told.to_pylist() if row[outcome] == "failed"]
    for row in failed:
        _say(name, f"{row['topic']}-{row['partition']}: {row['reason']}")
    _say(name, summary(told, asked.dry_run))
    return DATA_ERROR if failed else 0


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument(
        "paths",
        metavar="LOGDIR",
        nargs="+",
        help="a log directory, or a partition directory; executors must see it under the same path",
    )
    parser.add_argument(
        "--topic",
        dest="topics",
        metavar="TOPIC",
        action="append",
        help="only this topic (may be repeated); else all but Kafka's internal ones",
    )
    parser.add_argument(
        "--exclude-topic",
        dest="exclude_topics",
        metavar="TOPIC",
        action="append",
        default=[],
        help="not this topic (may be repeated)",
    )
    parser.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="a setting by its topic's or broker's name (may be repeated); overrules --conf-file",
    )
    parser.add_argument(
        "--conf-file", metavar="FILE", type=Path, help="settings, a NAME=VALUE a line, as in conf/"
    )
    parser.add_argument(
        "--now-ms", metavar="MS", type=int, help="the time to measure ages from, epoch ms; else now"
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing, only tell what would be")
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"NAME=VALUE was expected, found {text!r}")
    return name.strip(), value.strip()


def _say(name: str, message: object) -> None:
    print(f"{name}: {' '.join(str(message).split())}", file=sys.stderr)  # noqa: T201
