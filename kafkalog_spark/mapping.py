"""map_in_arrow: read records, and apply a function to them before they enter the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def map_in_arrow(
    spark: SparkSession,
    path: str | list[str],
    function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    schema: StructType | str,
    **options: Any,
) -> DataFrame:
    """Return what a function makes of the records of log directories.

    As DataFrame.mapInArrow, but the function gets the batches where they were decoded, so that only its
    result is transferred into the JVM.

        def count_by_type(batches):
            for batch in batches:
                yield count(batch)  # a RecordBatch with the columns of the schema

        map_in_arrow(spark, "/var/kafka-logs", count_by_type, "type string, n bigint", columns="value")

    Args:
        spark: the session, classic or Spark Connect.
        path: one or several log directories.
        function: gets the record batches of one task, in the order of offsets of each partition, and yields
            record batches (or tables) with the columns of `schema`.
        schema: of the result.
        options: those of a read, such as `subscribe`, `where`, or `columns`, the columns that the function
            gets.

    Raises:
        OptionError: an option is invalid. Errors of the function are raised while the rows are read; a note
            at the end of its traceback names the offsets.
    """
    from kafkalog_spark.read.map_function import pickled_function

    reader = spark.read.format("kafkalog").schema(schema)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.option("mapInArrow", pickled_function(function)).load(path)
