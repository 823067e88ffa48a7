"""The command `kafkalog`. Each of its commands is a module in `commands`."""

from __future__ import annotations

from importlib import import_module

import click

import native_log
from native_log.cli.runner import Commands

COMMANDS = (
    *(
        "cat",
        "compact",
        "delete-records",
        "diff",
        "dump-log",
        "erase",
        "grep",
        "groups",
        "ls",
        "produce",
        "recover",
    ),
    *("reindex", "report", "restore", "retain", "salvage", "transactions", "verify"),
)


class LazyCommands(Commands):
    """Commands whose modules are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"native_log.cli.commands.{name}"), name)
        return command


def _print_version(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        from native_log.records import IMPLEMENTATION

        click.echo(f"kafkalog {native_log.__version__} (records: {IMPLEMENTATION})")
        ctx.exit()


@click.group(
    cls=LazyCommands,
    invoke_without_command=True,
    # color: otherwise click removes terminal escapes from keys and values, as if they were its own.
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, and whether the compiled kernel or the plain Python reference reads records.",
)
@click.pass_context
def kafkalog(ctx: click.Context) -> None:
    """Inspect and maintain Kafka log directories without a broker.

    PATH is a log directory (one of a broker's log.dirs, a copy or a snapshot), or a single partition
    directory. Only produce, recover, reindex, retain, compact, delete-records and erase change files.
    salvage and restore write new directories, report a page.

    \b
    Exit codes:
      0  done, nothing wrong
      1  damage or differences were found, data would be truncated, a partition failed, or a record was not
         written
      2  wrong usage, path or permission; the directory is in use
      3  the confirmation was declined; nothing changed
    130  interrupted by Ctrl-C
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
