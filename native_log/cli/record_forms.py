"""How records are printed: the options of `cat` and `grep`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from native_log.cli.options import combine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.cli.rendering import Rendering

_FORMS = ("text", "json", "arrow")
_SOURCE = ("topic", "partition", "offset", "timestamp", "timestampType")


class Form(click.ParamType):
    """text, json, arrow or a format string."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).lower() in _FORMS:
            return str(value).lower()
        if "%" not in str(value):
            expected = "text, json, arrow or a string with fields such as %o"
            self.fail(f"expected {expected}, found {value!r}", param, ctx)
        return str(value)


form_options = combine(
    (
        click.option(
            "--format",
            "-f",
            "form",
            type=Form(),
            metavar="[text|json|arrow|STRING]",
            default="text",
            show_default=True,
            help="text: a line for each record: topic-partition, offset, time, key and value, separated by "
            "tabs. json: JSON Lines. arrow: an Arrow IPC stream. STRING: see above.",
        ),
        click.option(
            "--columns",
            metavar="NAME,...",
            help="Print these columns, in this order, as text, JSON or Arrow.",
        ),
        click.option(
            "--encoding",
            type=click.Choice(["auto", "base64"], case_sensitive=False),
            default="auto",
            show_default=True,
            help='Keys and values in JSON. auto: a string if it is UTF-8, otherwise {"base64": "..."}.',
        ),
        click.option(
            "--include-headers",
            is_flag=True,
            help="Print headers, too. Without --columns, JSON has them anyway where a record has some.",
        ),
        click.option(
            "--output",
            "-o",
            type=click.File("wb", lazy=True),
            default="-",
            metavar="FILE",
            help="Write to a file instead of stdout.",
        ),
    )
)
"""The options of `rendering_of`: --format, --columns, --encoding, --include-headers and --output."""


def rendering_of(
    form: str, columns: str | None, include_headers: bool, encoding: str, output: BinaryIO, mode: str
) -> Rendering | Sequence[str]:
    """Return how to print records; for an Arrow stream, its columns. Raises click.UsageError."""
    from native_log.cli.rendering import format_rendering, json_rendering, text_rendering

    is_terminal = output.name == "-" and sys.stdout.isatty()
    if form == "arrow" and is_terminal:
        raise click.UsageError(
            "expected a file or a pipe for an Arrow stream, found a terminal; set --output FILE"
        )
    if form not in _FORMS:
        if columns is not None or mode == "permissive":
            raise click.UsageError("expected neither --columns nor --mode permissive with a format string")
        try:
            return format_rendering(form)
        except ValueError as error:
            raise click.UsageError(f"--format: {error}") from None
    names = _columns(columns)
    if include_headers and names is not None and "headers" not in names:
        names = [*names, "headers"]
    if form == "text":
        color = is_terminal and "NO_COLOR" not in os.environ
        return text_rendering(names, include_headers=include_headers, color=color)
    headers = ["headers"] if include_headers else []
    if form == "arrow":
        return names or ["key", "value", *_SOURCE, *headers]
    return json_rendering(
        names or [*_SOURCE, "key", "value", *headers],
        always_base64=encoding == "base64",
        with_headers=names is None and not include_headers,
    )


def _columns(text: str | None) -> list[str] | None:
    if text is None:
        return None
    from native_log.records import RECORD_SCHEMA

    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in RECORD_SCHEMA.names:
            raise click.UsageError(
                f"--columns: expected some of {', '.join(RECORD_SCHEMA.names)}, found {name!r}"
            )
    return names
