"""The data source of format("kafkalog")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions
    from kafkalog_spark.write.plan import WritePlan


class KafkaLogDataSource(DataSource):
    """Kafka log directories as a table: `spark.read.format("kafkalog").load("/var/kafka-logs")`.

    Supports batch and streaming reads and writes. Writes append. For the options see
    kafkalog_spark.options.read, stream and write.

    Spark finds the source by name where the package is installed. In a session that looked for data sources
    before that, `spark.dataSource.register(KafkaLogDataSource)` registers it.
    """

    # Spark imports this module to look for data sources, so other modules are imported where they are used.

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Read options are parsed here because Spark does not call schema() if the user passes a schema. This
        # excludes writes, which have other options, and catalog tables, whose options come with the schema.
        is_read = {"path", "paths", "location", "remote"} & set(options) and not _may_be_write(options)
        self._read_options = self._parse_read_options() if is_read else None

    def __getstate__(self) -> dict[str, Any]:
        # Spark creates the source in one process and plans in another one, which parses the options again:
        # parsed ones do not contain secrets when they are pickled.
        return {**self.__dict__, "_read_options": None}

    @classmethod
    def name(cls) -> str:
        return "kafkalog"

    def schema(self) -> str | StructType:
        from kafkalog_spark.options.catalog_tables import add_options, is_catalog_table
        from kafkalog_spark.read.plan import open_log_dir, partitions_to_read
        from kafkalog_spark.schema import ddl, default_schema

        options = self._read_options or self._parse_read_options()
        # Called for its errors: load() fails if a path or a topic does not exist.
        # A stream may start before there are any partitions.
        partitions_to_read(options, open_log_dir(options, allow_empty=True))
        schema = default_schema(options)
        return add_options(schema, self.options) if is_catalog_table(self.options) else ddl(schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        from kafkalog_spark.read.offsets import check_batch_start
        from kafkalog_spark.views import VIEWS
        from kafkalog_spark.views.internal import INTERNAL_VIEWS

        options = self._read_options or self._parse_read_options(**self._table_options(schema))
        check_batch_start(options.start)
        if options.view in VIEWS:
            from kafkalog_spark.views.reader import ViewReader

            return ViewReader(options, schema)
        if options.view in INTERNAL_VIEWS:
            from kafkalog_spark.views.internal_reader import InternalViewReader

            return InternalViewReader(options, schema)
        if options.view == "counts":
            from kafkalog_spark.read.counts import CountsReader

            return CountsReader(options, schema)
        from kafkalog_spark.read.batch import KafkaLogReader, PushingReader

        return PushingReader(options, schema) if options.push_filters else KafkaLogReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from kafkalog_spark.errors import OptionError
        from kafkalog_spark.options.stream import parse_stream_options
        from kafkalog_spark.read.rejected_stream import RejectedStreamReader
        from kafkalog_spark.read.stream import KafkaLogStreamReader

        try:
            options = {**self._table_options(schema), **self.options}
            return KafkaLogStreamReader(parse_stream_options(options), schema)
        except OptionError as error:
            return RejectedStreamReader(error)

    def _table_options(self, schema: StructType) -> dict[str, str]:
        """Return the options of the catalog table that is read; none if it is not a table."""
        from kafkalog_spark.errors import OptionError
        from kafkalog_spark.options.catalog_tables import stored_options

        options = stored_options(schema)
        if not self.options and not options:
            raise OptionError(
                "no path is given. If this is a table: Spark does not pass on the OPTIONS of a table whose "
                "columns are declared; remove the columns from CREATE TABLE, and select them with the option "
                "columns"
            )
        return options

    def _parse_read_options(self, **table_options: str) -> ReadOptions:
        from kafkalog_spark.options.read import parse_read_options

        return parse_read_options({**table_options, **self.options})

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kafkalog_spark.errors import OptionError
        from kafkalog_spark.write.batch import KafkaLogWriter

        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for kafkalog: records can only be appended to a log; use "
                "mode append"
            )
        return KafkaLogWriter(self._write_plan(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from kafkalog_spark.errors import OptionError
        from kafkalog_spark.write.stream import KafkaLogStreamWriter

        if overwrite:
            raise OptionError(
                "output mode complete not allowed for kafkalog: each batch would replace the whole result, "
                "but records can only be appended to a log; use output mode append"
            )
        if "txnAppId" in self.options or "txnVersion" in self.options:
            raise OptionError(
                "txnAppId and txnVersion are options of batch writes, as in foreachBatch; a streaming write "
                "writes each micro-batch once without them"
            )
        names = [self.options.get(name, "") for name in ("checkpointLocation", "queryName")]
        stream = f"{self.options.get('path')} {' '.join(names)}" if any(names) else None
        return KafkaLogStreamWriter(self._write_plan(schema, stream), schema)

    def _write_plan(self, schema: StructType, stream: str | None = None) -> WritePlan:
        from kafkalog_spark.errors import OptionError
        from kafkalog_spark.options.write import parse_write_options
        from kafkalog_spark.write.plan import WritePlan

        if not {"path", "paths", "location"} & set(self.options):
            raise OptionError(
                'no path is given, as in save("/data/kafka-logs"). If this is a table: Spark does not pass '
                "its OPTIONS to a write; set them in the write: INSERT INTO t WITH ('path' = "
                "'/data/kafka-logs', 'topic' = 'orders') SELECT ..., or df.writeTo('t').option('path', ...)"
            )
        return WritePlan.begin(parse_write_options(self.options), schema, stream)


def _may_be_write(options: MutableMapping[str, str]) -> bool:
    from kafkalog_spark.options.write import may_be_write

    return may_be_write(options)
