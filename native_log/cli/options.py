"""Arguments and options that several commands share."""

from __future__ import annotations

import base64
import os
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.completion import complete_directory, complete_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.log.tiers.detection import RemoteLayout
    from native_log.logdir.remote_storage import RemoteArguments

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

MAX_LONG = 2**63 - 1


class Long(click.ParamType):
    """An integer of 64 bits, at least `minimum`. (click's IntRange would show the limits in the help.)"""

    name = "integer"

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = click.INT.convert(value, param, ctx)
        if not self._minimum <= number <= MAX_LONG:
            self.fail(f"expected an integer from {self._minimum} to {MAX_LONG}, found {value}", param, ctx)
        return number


OFFSET = COUNT = Long(0)
EPOCH_MS = Long(-MAX_LONG - 1)


def combine(options: Sequence[Decorator]) -> Decorator:
    """Return one decorator for several options. The help shows them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


paths_argument = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, shell_complete=complete_directory
)


def topics_options(default: str) -> Decorator:
    """Return the options --topic and --exclude-topic (`topics`, `exclude_topics`).

    Args:
        default: the topics that are selected without --topic, for the help.
    """
    return combine(
        (
            click.option(
                "--topic",
                "-t",
                "topics",
                metavar="TOPIC",
                multiple=True,
                shell_complete=complete_topic,
                help=f"Process this topic (may be repeated). Default: {default}.",
            ),
            click.option(
                "--exclude-topic",
                "exclude_topics",
                metavar="TOPIC",
                multiple=True,
                shell_complete=complete_topic,
                help="Skip this topic (may be repeated).",
            ),
        )
    )


def _parse_storage_options(
    ctx: click.Context, param: click.Parameter, texts: Sequence[str]
) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not name or not equals:  # the text may be a secret
            raise click.BadParameter("expected NAME=VALUE, such as aws_region=eu-west-1", ctx, param)
    return {name: value for name, _, value in pairs}


storage_option = click.option(
    "--storage-option",
    "storage_options",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_parse_storage_options,
    help="A setting for a PATH that is a URL, such as aws_region=eu-west-1 (may be repeated). Set secrets in "
    "the environment: other users can see command lines.",
)


opening_options = combine(
    (
        click.option(
            "--high-watermark",
            type=click.Choice(["auto", "ignore", "checkpoint"], case_sensitive=False),
            default="auto",
            show_default=True,
            help="Where a log ends. checkpoint: at the checkpointed high watermark. ignore: after the last "
            "complete batch. auto: the former while a broker uses the directory, otherwise the latter.",
        ),
        click.option("--include-deleted", is_flag=True, help="Include -delete and -stray directories."),
        storage_option,
    )
)
"""Options of LogDir: `high_watermark`, `include_deleted`, `storage_options`."""
log_dir_options = combine((paths_argument, opening_options))
"""PATH... and these options."""


_REMOTE_OPTIONS = (
    click.option(
        "--remote",
        type=click.Path(),
        metavar="FOLDER",
        help="The folder of remote storage (KIP-405). Without PATH, it is read alone.",
    ),
    click.option(
        "--remote-layout",
        type=click.Choice(["auto", "local", "aiven", "pinterest"], case_sensitive=False),
        default="auto",
        show_default=True,
        help="How objects are named there. local: as by Apache's LocalTieredStorage.",
    ),
    click.option("--remote-prefix", default="", metavar="PREFIX", help="The key.prefix of Aiven's plugin."),
    click.option(
        "--remote-keys",
        type=click.Path(),
        metavar="FOLDER",
        help="The folder with the private keys of encrypted segments, as <key id>.private.pem.",
    ),
    click.option(
        "--remote-metadata",
        type=click.Path(),
        metavar="PATH",
        help="A log directory with __remote_log_metadata. Default: PATH.",
    ),
)


def remote_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of remote storage. The command gets `remote`: LogDir's arguments for it, or none."""

    @wraps(command)
    def with_remote(
        remote: str | None,
        remote_layout: RemoteLayout,
        remote_prefix: str,
        remote_keys: str | None,
        remote_metadata: str | None,
        **arguments: Any,
    ) -> Any:
        given: RemoteArguments = {}
        if remote is not None:
            given = {
                "remote": remote,
                "remote_layout": remote_layout,
                "remote_prefix": remote_prefix,
                "remote_keys": remote_keys,
                "remote_metadata": remote_metadata,
            }
        elif remote_layout != "auto" or remote_prefix or remote_keys or remote_metadata:
            raise click.UsageError("expected --remote with the other options of remote storage, found none")
        return command(remote=given, **arguments)

    return combine(_REMOTE_OPTIONS)(with_remote)


def tiered_log_dir_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add PATH..., and the options of LogDir and of remote storage. PATH may be left out with --remote."""

    @wraps(command)
    def with_paths(paths: tuple[str, ...], remote: RemoteArguments, **arguments: Any) -> Any:
        if not (paths or remote):
            raise click.UsageError("Missing argument 'PATH...'.")
        return command(paths=paths, remote=remote, **arguments)

    path_options = (
        click.argument("paths", metavar="PATH...", nargs=-1, shell_complete=complete_directory),
        opening_options,
    )
    return combine(path_options)(remote_options(with_paths))


key_encoding_option = click.option(
    "--key-encoding",
    type=click.Choice(["text", "hex", "base64"], case_sensitive=False),
    default="text",
    show_default=True,
    help="The encoding of keys on the command line; hex and base64 are for binary keys.",
)


def key_bytes(text: str | bytes, encoding: str) -> bytes:
    """Decode a key by its --key-encoding. Raises click.UsageError."""
    data = os.fsencode(text)
    try:
        if encoding == "hex":
            return bytes.fromhex(data.decode())
        return base64.b64decode(data, validate=True) if encoding == "base64" else data
    except ValueError:
        raise click.UsageError(f"expected a key in {encoding}, found {text!r}") from None


def header_conditions(headers: Sequence[str]) -> list[tuple[str, str | None]]:
    """Parse NAME[=VALUE] into pairs of name and value. The value None matches any value."""
    pairs = (text.partition("=") for text in headers)
    return [(name, value if equals else None) for name, equals, value in pairs]
