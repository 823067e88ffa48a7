"""Arguments and options that several commands have."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.completion import complete_directory, complete_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

MAX_LONG = 2**63 - 1


class Long(click.ParamType[int]):
    """A whole number of 64 bits, from `least` on. (click's IntRange would show these limits in the help.)"""

    name = "integer"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = click.INT.convert(value, param, ctx)
        if not self._least <= number <= MAX_LONG:
            self.fail(f"expected a number from {self._least} to {MAX_LONG}, found {value}", param, ctx)
        return number


OFFSET = COUNT = Long(0)
EPOCH_MS = Long(-MAX_LONG - 1)


def together(options: Sequence[Decorator]) -> Decorator:
    """One decorator for several options, which the help shows in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


paths_argument = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, shell_complete=complete_directory
)


def topics_options(default: str) -> Decorator:
    """--topic and --exclude-topic: `topics`, `exclude_topics`.

    Args:
        default: for the help, the topics that are chosen where none is named.
    """
    return together(
        (
            click.option(
                "--topic",
                "-t",
                "topics",
                metavar="TOPIC",
                multiple=True,
                shell_complete=complete_topic,
                help=f"Only this topic (may be repeated); else {default}.",
            ),
            click.option(
                "--exclude-topic",
                "exclude_topics",
                metavar="TOPIC",
                multiple=True,
                shell_complete=complete_topic,
                help="Not this topic (may be repeated).",
            ),
        )
    )


log_dir_options = together(
    (
        paths_argument,
        click.option(
            "--high-watermark",
            type=click.Choice(["auto", "ignore", "checkpoint"], case_sensitive=False),
            default="auto",
            show_default=True,
            help="Where logs end: at the checkpointed high watermark, while a broker runs on them (auto) or "
            "always (checkpoint), else at the last whole batch.",
        ),
        click.option(
            "--include-deleted", is_flag=True, help="Treat -delete and -stray directories as partitions too."
        ),
    )
)
"""PATH... and how LogDir opens them: `paths`, `high_watermark`, `include_deleted`."""


key_encoding_option = click.option(
    "--key-encoding",
    type=click.Choice(["text", "hex", "base64"], case_sensitive=False),
    default="text",
    show_default=True,
    help="How the keys given here are written; hex and base64 are for binary keys.",
)


def key_bytes(text: str | bytes, encoding: str) -> bytes:
    """A key as --key-encoding says it is written. Raises click.UsageError."""
    data = os.fsencode(text)
    try:
        if encoding == "hex":
            return bytes.fromhex(data.decode())
        return base64.b64decode(data, validate=True) if encoding == "base64" else data
    except ValueError:
        raise click.UsageError(f"expected a key in {encoding}, found {text!r}") from None


def header_conditions(headers: Sequence[str]) -> list[tuple[str, str | None]]:
    """(name, value) of each NAME[=VALUE]; None: any value."""
    pairs = (text.partition("=") for text in headers)
    return [(name, value if equals else None) for name, equals, value in pairs]
