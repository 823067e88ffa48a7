"""How records are read: one value, from the caller to the reader, also in the tasks of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from native_log.log.reading.columns import check_mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.arguments import Mode
    from native_log.filters import RecordFilter
    from native_log.filters.forms import FilterLike
    from native_log.segment.damage import DamagedRange

DEFAULT_MAX_BYTES = 8 << 20
"""Arrow memory of one batch of records. Without a limit, well compressed data makes batches of any size."""

DEFAULT_FIRST_ROWS = 1000

DEFAULT_MAP_BYTES = 128 << 20
"""Memory for the keys of `latest`, as for a broker's cleaner (log.cleaner.dedupe.buffer.size)."""


class ReadArguments(TypedDict, total=False):
    """The fields of ReadOptions, as keyword arguments of LogRange.read."""

    mode: Mode
    check_crcs: bool
    max_rows: int | None
    max_bytes: int | None
    first_rows: int | None
    on_damage: Callable[[DamagedRange], None] | None
    fail_on_data_loss: bool
    filter: FilterLike


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read records. See LogRange.read for the other attributes.

    Attributes:
        relocate: whether to continue in the present files after planned ones were removed or replaced.
            Otherwise, FileNotFoundError or LogTruncatedError is raised.

    Raises:
        ValueError: the mode is unknown.
    """

    mode: Mode = "failFast"
    check_crcs: bool = True
    fail_on_data_loss: bool = True
    max_rows: int | None = None
    max_bytes: int | None = DEFAULT_MAX_BYTES
    first_rows: int | None = DEFAULT_FIRST_ROWS
    on_damage: Callable[[DamagedRange], None] | None = None
    filter: RecordFilter | None = None
    relocate: bool = True

    def __post_init__(self) -> None:
        check_mode(self.mode)


def with_parsed_filter(arguments: ReadArguments) -> ReadArguments:
    """Check keyword arguments of LogRange.read, and return them with their filter parsed, to use them often.

    Raises ValueError, FilterError, TypeError.
    """
    filter = read_options(arguments).filter
    return arguments if filter is None else {**arguments, "filter": filter}


def read_options(arguments: ReadArguments) -> ReadOptions:
    """Return the options that keyword arguments of LogRange.read mean.

    Raises ValueError, FilterError; TypeError for an unknown argument.
    """
    known = ReadArguments.__annotations__
    for name in arguments:
        if name not in known:
            raise TypeError(f"unknown argument {name!r}: expected one of {', '.join(known)}")
    if arguments.get("filter") is None:
        return ReadOptions(**{name: value for name, value in arguments.items() if name != "filter"})  # type: ignore[arg-type]
    from native_log.filters import to_filter  # takes long to import

    return ReadOptions(**{**arguments, "filter": to_filter(arguments["filter"])})  # type: ignore[arg-type]
