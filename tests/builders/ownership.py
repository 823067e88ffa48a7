"""Directories of another user, for tests that run as root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

OWNER = 1234

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def give(path: Path) -> None:
    """Give a directory, and everything in it, to OWNER."""
    for file in (path, *path.rglob("*")):
        os.chown(file, OWNER, OWNER)


def owners(path: Path) -> set[tuple[int, int]]:
    """Return the owners and groups of a directory and of everything in it."""
    return {(file.lstat().st_uid, file.lstat().st_gid) for file in (path, *path.rglob("*"))}
