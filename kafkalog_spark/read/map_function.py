"""Apply a function of the user to the record batches of a task, where they were decoded."""

from __future__ import annotations

import base64
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalog_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql.types import StructType

    from native_log.log import LogRange

    MapFunction = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]

_PICKLED = "pickled:"


def pickled_function(function: MapFunction) -> str:
    """Return a function as the value of the option `mapInArrow`."""
    from pyspark.cloudpickle import dumps

    pickled: bytes = dumps(function)  # type: ignore[no-untyped-call]
    return _PICKLED + base64.b64encode(pickled).decode()


@dataclass(frozen=True, slots=True)
class MappedRead:
    """What a function makes of the records of a task.

    Attributes:
        function: the option `mapInArrow`: `module:function`, or a pickled function.
        schema: the schema of the result.
    """

    function: str
    schema: pa.Schema

    @classmethod
    def of(cls, function: str, schema: StructType) -> MappedRead:
        """Return the mapping to Spark's schema. Raises OptionError for an invalid option."""
        from pyspark.sql.pandas.types import to_arrow_schema

        if not function.startswith(_PICKLED) and function.count(":") != 1:
            raise OptionError(f"mapInArrow: expected module:function, found {function!r}")
        return cls(function, to_arrow_schema(schema))

    def apply(self, ranges: Iterable[LogRange], read: Callable[[LogRange], Iterator[pa.RecordBatch]]) -> Any:
        """Yield the batches that the function makes of the records of the ranges.

        An error of the function is raised unchanged, with a note that says which offsets it was given.

        Raises:
            TypeError, ValueError: its result has another type, or lacks a column.
        """
        function = self._load()
        current: list[LogRange] = []
        failures: list[Exception] = []  # of the read, not of the function

        def records() -> Iterator[pa.RecordBatch]:
            for each in ranges:
                current[:] = [each]
                try:
                    yield from read(each)
                except Exception as error:
                    failures.append(error)
                    raise

        try:
            for batch in function(records()):
                for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
                    yield self._cast(part)
        except Exception as error:
            if error in failures:
                raise
            place = "before it read any record"
            if current:
                (last,) = current
                offsets = f"{last.start_offset} to {last.end_offset - 1}"
                place = f"in offsets {offsets} of {last.topic}-{last.partition}"
            error.add_note(f"The function of mapInArrow failed {place}.")
            raise

    def _load(self) -> MapFunction:
        if self.function.startswith(_PICKLED):
            from pyspark.cloudpickle import loads

            function: MapFunction = loads(base64.b64decode(self.function[len(_PICKLED) :]))
            return function
        module, _, name = self.function.partition(":")
        try:
            found: MapFunction = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise OptionError(
                f"mapInArrow: expected module:function that this process can import, found {self.function!r} "
                f"({error})"
            ) from error
        return found

    def _cast(self, batch: Any) -> pa.RecordBatch:
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"expected a pyarrow.RecordBatch from the function, found {type(batch).__name__}")
        missing = [name for name in self.schema.names if name not in batch.schema.names]
        if missing:
            raise ValueError(f"expected a column {missing[0]} in {batch.schema.names}, found none")
        arrays = [batch.column(field.name).cast(field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
