"""Exit codes of commands, and errors as one line on stderr."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any, NoReturn

import click

from native_log.errors import (
    EmptyLogDirError,
    InvalidTopicError,
    KafkaLogError,
    LogDirInUseError,
    LostOffsetsError,
    NotALogDirError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    error_message,
)

DATA_ERROR = 1
USAGE_ERROR = 2
DECLINED = 3
INTERRUPTED = 130

_NOT_DAMAGE = (
    *(NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError, InvalidTopicError),
    *(OffsetOutOfRangeError, LogDirInUseError, OSError),
)


def exit_code_of(error: KafkaLogError | OSError) -> int:
    """Return DATA_ERROR for damage in a log. Monitoring can thus tell it from a wrong path or permission."""
    is_damage = isinstance(error, LostOffsetsError) or not isinstance(error, _NOT_DAMAGE)
    return DATA_ERROR if is_damage else USAGE_ERROR


class Commands(click.Group):
    """A group of commands that exit with the codes above."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _print_note(message)
            handler = _NoteHandler()
            logger = logging.getLogger("native_log")
            logger.addHandler(handler)
            try:
                sys.exit(self._run(*args, **kwargs))
            finally:
                logger.removeHandler(handler)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader of the pipe has closed it. Python flushes stdout again when it exits; discard that.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None
        return result

    def _run(self, *args: Any, **kwargs: Any) -> int:
        try:
            result = super().main(*args, **kwargs)
        except click.UsageError as error:
            help_option = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            _print_note(error.format_message() + help_option)
            return USAGE_ERROR
        except click.ClickException as error:
            _print_note(error.format_message())
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except (KafkaLogError, OSError) as error:
            _print_note(error_message(error))
            return exit_code_of(error)
        return result if isinstance(result, int) else 0


class _NoteHandler(logging.Handler):
    """Print each warning of the package once, even if it is logged several times."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._printed:
            self._printed.add(message)
            _print_note(message)


def print_error(error: Exception) -> None:
    """Print an error on stderr in one line, and continue."""
    _print_note(error_message(error))


def _print_note(message: object) -> None:
    from native_log.cli.escapes import safe_text  # it imports Arrow, which --help does not need

    click.echo(f"kafkalog: {safe_text(' '.join(str(message).split()))}", err=True)
