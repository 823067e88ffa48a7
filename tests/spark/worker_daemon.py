"""PySpark's daemon, from which Python workers are forked, with the modules that every worker needs.

Spark starts it because of the setting spark.python.daemon.module. PySpark's own daemon imports nothing, so
each worker imports pandas, pyarrow and kafkalog, which takes longer than most tasks of the tests.
"""

import pandas
import pyarrow
from pyspark.daemon import manager

import kafkalog_spark
import native_log

__all__ = ["kafkalog_spark", "native_log", "pandas", "pyarrow"]

if __name__ == "__main__":
    manager()
