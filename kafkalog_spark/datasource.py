"""The data source that Spark finds as format("kafkalog")."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkalog_spark.read.batch import KafkaLogReader


class KafkaLogDataSource(DataSource):
    """Kafka log directories as a table: `spark.read.format("kafkalog").load("/var/kafka-logs")`.

    Found by its name wherever the package is installed; `spark.dataSource.register(KafkaLogDataSource)`
    registers it in a session that looked for data sources before. For its options see kafkalog_spark.options.
    """

    # What reading needs is imported when it is used: Spark imports this module to look for data sources.

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Also here, since Spark does not ask for schema() where the user gave one.
        from kafkalog_spark.options import parse_read_options

        self._read_options = parse_read_options(options)

    @classmethod
    def name(cls) -> str:
        return "kafkalog"

    def schema(self) -> str:
        from kafkalog_spark.read.batch import default_schema

        return default_schema(self._read_options)

    def reader(self, schema: StructType) -> KafkaLogReader:
        from kafkalog_spark.read.batch import KafkaLogReader

        return KafkaLogReader(self._read_options, schema)

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        raise NotImplementedError(
            "kafkalog cannot be read as a stream yet: use spark.read, not spark.readStream"
        )
