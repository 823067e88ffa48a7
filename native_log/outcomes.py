"""The words for what a run did, and for what a dry run would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Collection

_WOULD_BE = "would be "


def planned(outcome: str) -> str:
    """Return an outcome as a dry run reports it: `would be deleted`."""
    return f"{_WOULD_BE}{outcome}"


def is_outcome(value: object, outcome: str) -> bool:
    """Return whether a status or decision is this outcome, or that of a dry run: `would be ...`."""
    return value in (outcome, planned(outcome))


def as_planned(report: pa.Table, column: str, outcomes: Collection[str]) -> pa.Table:
    """Return the report of a dry run, with `would be` before these outcomes in a column."""
    values = report.column(column)
    future = pc.binary_join_element_wise(_WOULD_BE, values, "")
    changed = pc.if_else(pc.is_in(values, pa.array(outcomes, pa.string())), future, values)
    return report.set_column(report.schema.get_field_index(column), report.schema.field(column), changed)
