"""The data source that Spark finds as format("kafkalog")."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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
        from kafkalog_spark.read.plan import open_log_dir, selected
        from kafkalog_spark.schema import KAFKA_COLUMNS, RECORDS, ddl, pick
        from kafkalog_spark.views import VIEWS

        options = self._read_options
        selected(options, open_log_dir(options))  # a path or a topic that is not there is told at load()
        view = VIEWS.get(options.view, RECORDS)
        columns = options.columns or view.names
        if options.columns is None and options.view == "records":
            columns = (*KAFKA_COLUMNS, "headers") if options.include_headers else KAFKA_COLUMNS
        return ddl(pick(view, columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        from kafkalog_spark.read.batch import KafkaLogReader
        from kafkalog_spark.views import ViewReader

        reader = KafkaLogReader if self._read_options.view == "records" else ViewReader
        return reader(self._read_options, schema)

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        raise NotImplementedError(
            "kafkalog cannot be read as a stream yet: use spark.read, not spark.readStream"
        )
