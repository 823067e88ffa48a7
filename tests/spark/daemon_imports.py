"""Import what PySpark's Python workers need into the daemons from which they are forked.

PySpark's daemons import nothing, so each worker imports pandas, pyarrow and kafkalog, which takes longer than
most queries of the tests. Python runs this file when it starts: Spark's home has it as sitecustomize.py.
"""

import contextlib
import gc
import importlib
import sys

_MODULES = {
    "worker": (
        *("pandas", "kafkalog_spark.read.batch", "kafkalog_spark.read.stream"),
        *("kafkalog_spark.write.batch", "kafkalog_spark.write.stream"),
    ),
    "create_data_source": ("kafkalog_spark.options.read", "kafkalog_spark.options.write"),
    "plan_data_source_read": ("kafkalog_spark.read.batch",),
    "write_into_data_source": ("kafkalog_spark.write.batch",),
}
"""What a worker needs, by the last part of its module's name. Other daemons usually fork one worker only."""


def _import(*names: str) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    kind = sys.orig_argv[3]
    _import(kind, *_MODULES.get(kind.rpartition(".")[2], ()))
    gc.freeze()  # a worker collects garbage after each task
