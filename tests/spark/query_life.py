"""The part that random lives of logs under a stream have in common: the query, and what it has read."""

from __future__ import annotations

from collections import Counter

from hypothesis.stateful import RuleBasedStateMachine
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from .stream_query import StreamQuery

VALUES = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("value", BinaryType()),
    ]
)
CONFIG = {"segment.bytes": 300}
_TRIGGERS = 1000
"""More triggers than a query needs to read all records."""


class QueryLife(RuleBasedStateMachine):
    """A query over logs that change.

    Attributes:
        query: the present run of the query.
        seen: how often each value was read in a micro-batch that was committed.
    """

    def start_query(self, options: dict[str, str]) -> None:
        self.options = options
        self.seen: Counter[bytes] = Counter()
        self.query = StreamQuery(schema=VALUES, **options)

    def start_again(self) -> None:
        """Continue the query in a new run."""
        self.query = StreamQuery(self.query.checkpoint, schema=VALUES, **self.options)

    def run_trigger(self) -> bool:
        """Run one trigger. Return whether there was anything to read."""
        batch = self.query.trigger()
        if batch is not None:
            self.seen.update(value for values in batch.rows.values() for value in values)
        return batch is not None

    def read_rest(self) -> None:
        """Read all records that are left."""
        assert any(not self.run_trigger() for _ in range(_TRIGGERS))

    def repeated(self) -> list[bytes]:
        """Return the values that were read more than once."""
        return [value for value, times in self.seen.items() if times > 1]
