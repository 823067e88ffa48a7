"""The data source that Spark finds as format("kafkalog")."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions
    from kafkalog_spark.write.plan import WritePlan


class KafkaLogDataSource(DataSource):
    """Kafka log directories as a table: `spark.read.format("kafkalog").load("/var/kafka-logs")`.

    Found by its name wherever the package is installed; `spark.dataSource.register(KafkaLogDataSource)`
    registers it in a session that looked for data sources before. It is read, and appended to by batches and
    streams; for its options see kafkalog_spark.options.read and kafkalog_spark.options.write.
    """

    # What reading needs is imported when it is used: Spark imports this module to look for data sources.

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # As early as this, since Spark does not ask for schema() where the user gave one. But the options of
        # a catalog table come with the schema only, and a write has others.
        reads = {"path", "paths", "location"} & set(options) and not _may_be_write(options)
        self._read_options = self._parsed() if reads else None

    @classmethod
    def name(cls) -> str:
        return "kafkalog"

    def schema(self) -> str | StructType:
        from kafkalog_spark.options.catalog_tables import is_catalog_table, with_options
        from kafkalog_spark.read.plan import open_log_dir, selected
        from kafkalog_spark.schema import ddl, default_schema

        options = self._read_options or self._parsed()
        selected(options, open_log_dir(options))  # a path or a topic that is not there is told at load()
        schema = default_schema(options)
        return with_options(schema, self.options) if is_catalog_table(self.options) else ddl(schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        from kafkalog_spark.errors import OptionError
        from kafkalog_spark.options.catalog_tables import options_of

        table_options = options_of(schema)
        if not self.options and not table_options:
            raise OptionError(
                "no path is given. If this is a table: Spark does not hand on the OPTIONS of one whose "
                "columns are declared; leave them out of CREATE TABLE and name them in its option columns"
            )
        options = self._read_options or self._parsed(**table_options)
        if options.view in ("records", "latest"):
            from kafkalog_spark.read.batch import KafkaLogReader

            return KafkaLogReader(options, schema)
        from kafkalog_spark.views.reader import ViewReader

        return ViewReader(options, schema)

    def _parsed(self, **table_options: str) -> ReadOptions:
        from kafkalog_spark.options.read import parse_read_options

        return parse_read_options({**table_options, **self.options})

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kafkalog_spark.errors import OptionError
        from kafkalog_spark.write.batch import KafkaLogWriter

        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for kafkalog: a log is appended to. Allowed is append"
            )
        return KafkaLogWriter(self._write_plan(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from kafkalog_spark.errors import OptionError
        from kafkalog_spark.write.stream import KafkaLogStreamWriter

        if overwrite:
            raise OptionError(
                "output mode complete not allowed for kafkalog: each batch replaces the whole result, "
                "and a log is appended to. Allowed is append"
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
                'no path is given, as in save("/data/kafka-logs"). If this is a table: Spark hands none of '
                "its OPTIONS to a write; name them there: INSERT INTO t WITH ('path' = '/data/kafka-logs', "
                "'topic' = 'orders') SELECT ..., or df.writeTo('t').option('path', ...)"
            )
        return WritePlan.begin(parse_write_options(self.options), schema, stream)

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        raise NotImplementedError(
            "kafkalog cannot be read as a stream yet: use spark.read, not spark.readStream"
        )


def _may_be_write(options: MutableMapping[str, str]) -> bool:
    from kafkalog_spark.options.write import may_be_write

    return may_be_write(options)
