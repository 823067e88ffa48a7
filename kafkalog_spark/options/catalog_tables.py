"""Options of catalog tables, carried in the table's schema.

Spark gives a Python data source the OPTIONS of a CREATE TABLE when it asks for the schema, at creation, but
not when the table is read (4.0 to 4.3). The schema it does give back, the metadata of its columns included:
so the options of reading travel there.

They say nothing of where a write goes. A column that a query selects from one table keeps its metadata on the
way into another: `INSERT INTO a SELECT * FROM b` would be told of b.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from kafkalog_spark.options.names import KAFKA_SOURCE, OWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

METADATA_KEY = "kafkalog.options"
_CARRIED = {name.lower() for name in (*KAFKA_SOURCE, *OWN, "location")}


def is_catalog_table(options: Mapping[str, str]) -> bool:
    """Whether these are what a catalog gives at the creation of a table."""
    return "provider" in options


def with_options(schema: pa.Schema, options: Mapping[str, str]) -> StructType:
    """The schema, with the options in the metadata of its first column."""
    first, *others = from_arrow_schema(schema).fields
    carried = {name.lower(): value for name, value in options.items() if name.lower() in _CARRIED}
    metadata = {METADATA_KEY: json.dumps(carried)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def options_of(schema: StructType) -> dict[str, str]:
    """The options that a schema carries, if any."""
    for field in schema.fields:
        if METADATA_KEY in field.metadata:
            return dict(json.loads(field.metadata[METADATA_KEY]))
    return {}
