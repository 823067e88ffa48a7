"""Which records are printed: the options of `cat` and `grep`."""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.completion import complete_partitions
from native_log.cli.options import COUNT, OFFSET, combine, key_bytes, key_encoding_option
from native_log.cli.times import TimeType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class PartitionRanges(click.ParamType):
    """Numbers and ranges separated by commas: 0-3,7."""

    name = "partitions"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[range, ...]:
        if isinstance(value, tuple):
            return value
        ranges = []
        for text in str(value).split(","):
            match = re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", text)
            if match is None or int(match[1]) > int(match[2] or match[1]):
                self.fail(f"expected partitions such as 0-3,7, found {value!r}", param, ctx)
            ranges.append(range(int(match[1]), int(match[2] or match[1]) + 1))
        return tuple(ranges)


_OPTIONS = (
    click.option(
        "--replicas",
        type=click.Choice(["longest", "merge"], case_sensitive=False),
        default="longest",
        show_default=True,
        help="If several PATHs contain the same partition: read the longest copy, or merge all copies.",
    ),
    click.option(
        "--partition",
        "-p",
        "partitions",
        metavar="N[-M],...",
        multiple=True,
        type=PartitionRanges(),
        shell_complete=complete_partitions,
        help="Only these partitions, such as 0-3,7 (may be repeated).",
    ),
    click.option("--offset", type=OFFSET, metavar="N", help="Start at this offset."),
    click.option("--end-offset", type=OFFSET, metavar="N", help="Stop before this offset."),
    click.option(
        "--from", "from_ms", type=TimeType(), help="Only records with this timestamp or a later one."
    ),
    click.option("--until", "until_ms", type=TimeType(), help="Only records with an earlier timestamp."),
    click.option("--key", "-k", "keys", multiple=True, help="Only records with this key (may be repeated)."),
    click.option(
        "--key-prefix",
        "prefixes",
        multiple=True,
        help="Only records with this prefix of the key (may be repeated).",
    ),
    key_encoding_option,
    click.option(
        "--where",
        metavar="SQL",
        help="Only records that meet a condition in SQL, such as \"timestamp >= '2026-11-01' AND "
        "key = 'k1'\".",
    ),
    click.option("--limit", "-n", type=COUNT, metavar="N", help="Stop after N records in total."),
    click.option(
        "--isolation-level",
        type=click.Choice(["read_uncommitted", "read_committed"], case_sensitive=False),
        default="read_uncommitted",
        show_default=True,
    ),
)


def check_range(
    offset: int | None, end_offset: int | None, from_ms: int | None, until_ms: int | None
) -> None:
    """Raise a usage error if an end is before its start."""
    if offset is not None and end_offset is not None and offset > end_offset:
        raise click.UsageError(f"expected --offset up to --end-offset, found {offset} and {end_offset}")
    if from_ms is not None and until_ms is not None and from_ms > until_ms:
        found = f"{from_ms} and {until_ms} in epoch ms"
        raise click.UsageError(f"expected --from before --until, found {found}")


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select records.

    The command gets `partitions` as ranges (None: all), `keys` and `key_prefixes` as bytes, times in epoch
    ms, and `replicas`, `offset`, `end_offset`, `where`, `limit` and `isolation_level` as they are. An end
    before its start is a usage error.
    """

    @wraps(command)
    def with_selection(
        partitions: Sequence[Sequence[range]],
        offset: int | None,
        end_offset: int | None,
        from_ms: int | None,
        until_ms: int | None,
        keys: Sequence[str],
        prefixes: Sequence[str],
        key_encoding: str,
        **arguments: Any,
    ) -> Any:
        check_range(offset, end_offset, from_ms, until_ms)
        return command(
            partitions=[numbers for ranges in partitions for numbers in ranges] or None,
            offset=offset,
            end_offset=end_offset,
            from_ms=from_ms,
            until_ms=until_ms,
            keys=[key_bytes(text, key_encoding) for text in keys],
            key_prefixes=[key_bytes(text, key_encoding) for text in prefixes],
            **arguments,
        )

    return combine(_OPTIONS)(with_selection)
