"""Options of catalog tables, stored in the table's schema.

Spark passes the OPTIONS of CREATE TABLE to a Python data source when the table is created, but not when it
is read (4.0 to 4.3). It does pass the schema, with the metadata of its columns. Therefore the read options
are stored in that metadata.

Writes do not use them. A column that a query selects from one table keeps its metadata when it is inserted
into another table: `INSERT INTO a SELECT * FROM b` would see the options of b.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.names import KAFKA_SOURCE_OPTIONS, KAFKALOG_OPTIONS, STREAM_OPTIONS
from kafkalog_spark.options.storage import CREDENTIAL_PROVIDER, is_secret, is_storage_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

METADATA_KEY = "kafkalog.options"
_STORED = {name.lower() for name in (*KAFKA_SOURCE_OPTIONS, *KAFKALOG_OPTIONS, *STREAM_OPTIONS, "location")}


def is_catalog_table(options: Mapping[str, str]) -> bool:
    """Return whether these are the options that a catalog passes when it creates a table."""
    return "provider" in options


def add_options(schema: pa.Schema, options: Mapping[str, str]) -> StructType:
    """Convert the schema to Spark's, with the read options in the metadata of its first column.

    Raises OptionError for credentials.
    """
    first, *others = from_arrow_schema(schema).fields
    for name in options:
        if is_secret(name):
            raise OptionError(
                f"{name}: credentials are not stored in tables, where others can read them; set them in the "
                f"environment, or name a function in {CREDENTIAL_PROVIDER}"
            )
    stored = {
        name.lower(): value
        for name, value in options.items()
        if name.lower() in _STORED or is_storage_option(name)
    }
    metadata = {METADATA_KEY: json.dumps(stored)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def stored_options(schema: StructType) -> dict[str, str]:
    """Return the options stored in a schema; empty if there are none."""
    for field in schema.fields:
        if METADATA_KEY in field.metadata:
            return dict(json.loads(field.metadata[METADATA_KEY]))
    return {}
