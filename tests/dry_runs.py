"""Compare the report of a dry run with that of the run."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

PAST = {"deleted", "cleaned", "erased", "removed", "reindexed", "cut"}
"""Words for a change that was made. A dry run has `would be` before each of them."""


def as_done(planned: pa.Table) -> pa.Table:
    """Return the report that a run gives if it does what its dry run has planned."""
    name = "decision" if "decision" in planned.schema.names else "status"
    column = planned.column(name)
    assert PAST.isdisjoint(column.to_pylist()), column.unique()
    done = pc.replace_substring_regex(column, "^would be ", "")
    return planned.set_column(planned.schema.get_field_index(name), planned.schema.field(name), done)
