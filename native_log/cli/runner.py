"""How commands end: exit codes, one line on stderr for an error, quietly when a pipe's reader goes away."""

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
    """DATA_ERROR for damage in a log, so that monitoring can tell it from a wrong path or a permission."""
    return USAGE_ERROR if isinstance(error, _NOT_DAMAGE) else DATA_ERROR


class Commands(click.Group):
    """A group of commands that end with the exit codes above."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _note(message)
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
            # What reads us has enough. Python flushes stdout once more at its end: let that go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None
        return result

    def _run(self, *args: Any, **kwargs: Any) -> int:
        try:
            result = super().main(*args, **kwargs)
        except click.UsageError as error:
            help_option = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            _note(error.format_message() + help_option)
            return USAGE_ERROR
        except click.ClickException as error:
            _note(error.format_message())
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except (KafkaLogError, OSError) as error:
            _note(error_message(error))
            return exit_code_of(error)
        return result if isinstance(result, int) else 0


class _NoteHandler(logging.Handler):
    """Each message of the package once, however often it is come across."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._said:
            self._said.add(message)
            _note(message)


def note_error(error: Exception) -> None:
    """Say on stderr, in one line, what went wrong, and go on."""
    _note(error_message(error))


def _note(message: object) -> None:
    click.echo(f"kafkalog: {' '.join(str(message).split())}", err=True)
