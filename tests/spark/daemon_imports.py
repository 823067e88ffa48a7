"""Import what PySpark's Python workers need into the daemons from which they are forked.

PySpark's daemons import nothing, so each worker imports pandas, pyarrow and kafkalog, which takes longer than
most queries of the tests. Python runs this file when it starts: Spark's home has it as sitecustomize.py.
"""

import contextlib
import gc
import importlib
import sys

_MODULES = (
    *("pandas", "pyarrow", "native_log"),
    *("kafkalog_spark.read.batch", "kafkalog_spark.read.stream"),
    *("kafkalog_spark.write.batch", "kafkalog_spark.write.stream"),
)


def _import(*names: str) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    _import(sys.orig_argv[3], *_MODULES)
    gc.freeze()  # a worker collects garbage after each task
