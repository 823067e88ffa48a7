"""Storage options of a Spark session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalog_spark.options.storage import is_of_another_bucket, parse_storage_options
from native_log.arguments import path_list
from native_log.storage import StorageOptions, scheme_of, url_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from native_log.arguments import PathLike

_NAMES = {
    "s3": r"fs\.s3a\..*",
    "s3a": r"fs\.s3a\..*",
    "abfs": r"fs\.azure\..*",
    "abfss": r"fs\.azure\..*",
    "az": r"fs\.azure\..*",
    "gs": r"(fs\.gs|google\.cloud)\..*",
}


def storage_options(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the settings of the session for a URL, as options of a read.

        spark.read.format("kafkalog").options(**storage_options(spark, url)).load(url)

    They come from Hadoop's configuration (`spark.hadoop.fs.s3a.access.key`, core-site.xml), with those of the
    session on top. With Spark Connect, only those of the session are visible. Values that Hadoop takes from a
    credential file (JCEKS) are not found.

    Args:
        spark: the session.
        path: the URL to read. Settings for other schemes and buckets are left out.
    """
    scheme = scheme_of(path)
    pattern = _NAMES.get(scheme or "")
    if pattern is None:
        return {}
    bucket = url_path(path).parts[1]
    found = {
        name: value
        for name, value in {**_hadoop_settings(spark), **_session_settings(spark)}.items()
        if re.fullmatch(pattern, name)
    }
    return {name: value for name, value in found.items() if not is_of_another_bucket(name, bucket)}


def storage_options_for(spark: SparkSession, paths: PathLike | Iterable[PathLike]) -> StorageOptions:
    """Return the settings of the session for those of the paths that are URLs.

    Raises OptionError for credentials that Python cannot use.
    """
    found: dict[str, str] = {}
    for path in path_list(paths):
        found |= storage_options(spark, str(path))
    return StorageOptions(parse_storage_options(found))


def _hadoop_settings(spark: SparkSession) -> dict[str, str]:
    context = getattr(spark, "_jsc", None)
    if context is None:
        return {}
    settings = context.hadoopConfiguration().iterator()
    found = {}
    while settings.hasNext():
        setting = settings.next()
        found[setting.getKey()] = context.hadoopConfiguration().get(setting.getKey())
    return found


def _session_settings(spark: SparkSession) -> dict[str, str]:
    everything = dict(spark.conf.getAll)
    return {
        name.removeprefix("spark.hadoop."): value
        for name, value in everything.items()
        if name.startswith(("spark.hadoop.fs.", "spark.hadoop.google.", "fs.", "google.cloud."))
    }
