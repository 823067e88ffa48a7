"""Settings from a file of NAME=VALUE lines, such as those in conf/ or a broker's server.properties."""

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


def read_settings(path: Path) -> dict[str, str]:
    """Return the settings in a file. Lines that begin with `#` or `!` are comments.

    Raises InvalidConfigError for a line that is not NAME=VALUE; OSError.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(read_file(str(path)).decode().splitlines(), 1):
        text = line.strip()
        if text and text[0] not in "#!":
            name, equals, value = text.partition("=")
            if not equals:
                raise InvalidConfigError(f"{path}, line {number}: expected NAME=VALUE, found {text!r}")
            found[name.strip()] = value.strip()
    return found


def merge_settings(path: Path | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in a file, if there is one, overridden by those that are given one by one.

    A policy with delete counts only if it is given: a file is written once, for any topic, and must not
    decide that compacted topics lose their data. Raises as `read_settings` does.
    """
    settings = {} if path is None else read_settings(path)
    policy = Request(settings).policy
    if policy is not None and "delete" in policy:
        names = [name for name in _POLICY_NAMES if name in settings]
        settings = {name: value for name, value in settings.items() if name not in names}
        if not any(name in given for name in _POLICY_NAMES):
            logger.warning(
                "%s: %s is ignored, since a file cannot ask to delete from compacted topics; to do so, set "
                "it on the command line and name the topic",
                path,
                names[0],
            )
    return {**settings, **given}
