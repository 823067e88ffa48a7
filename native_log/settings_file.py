"""Settings from a file of NAME=VALUE lines, such as the files in conf/ or a broker's server.properties."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from native_log.config import InvalidConfigError
from native_log.policies import Request
from native_log.storage import read_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

_POLICY_NAMES = ("cleanup.policy", "log.cleanup.policy")


def parse_setting(text: str) -> tuple[str, str]:
    """Return name and value of NAME=VALUE, without spaces around them. Raises InvalidConfigError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidConfigError(f"expected NAME=VALUE, found {text!r}")
    return name.strip(), value.strip()


def read_settings(path: Path) -> dict[str, str]:
    """Return the settings in a file. Lines that begin with `#` or `!` are comments.

    Raises InvalidConfigError for a line that is not NAME=VALUE; OSError.
    """
    settings: dict[str, str] = {}
    for number, line in enumerate(read_file(str(path)).decode().splitlines(), 1):
        text = line.strip()
        if text and text[0] not in "#!":
            try:
                name, value = parse_setting(text)
            except InvalidConfigError as error:
                raise InvalidConfigError(f"{path}, line {number}: {error}") from None
            settings[name] = value
    return settings


def merge_settings(path: Path | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in a file, overridden by `given`. Raises as `read_settings` does.

    A cleanup.policy with delete is ignored, with a warning, if only the file sets it. A settings file is
    reused for many topics, so it must not decide that compacted topics lose data.

    Args:
        path: the file; None: there is none.
        given: settings given one by one, such as on the command line.
    """
    settings = {} if path is None else read_settings(path)
    request = Request(settings)
    if "delete" in (request.policy or ()) or "delete" in (request.default_policy or ()):
        names = [name for name in _POLICY_NAMES if name in settings]
        settings = {name: value for name, value in settings.items() if name not in names}
        if not any(name in given for name in _POLICY_NAMES):
            logger.warning(
                "%s: %s is ignored, since a file cannot ask to delete from compacted topics; to do so, set "
                "cleanup.policy on the command line and name the topic",
                path,
                names[0],
            )
    return {**settings, **given}
