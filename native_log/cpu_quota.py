"""The processor time that the control groups (cgroups) of this process allow, as in a container."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOUNTED = Path("/sys/fs/cgroup")
_GROUPS = Path("/proc/self/cgroup")


@cache
def cpu_quota() -> float | None:
    """Return how many cores this process may use on average, as of the first call; None: no limit."""
    quotas: list[float] = []
    with contextlib.suppress(OSError, ValueError):
        for folder in _folders():
            quotas += _quota(folder)
    return min(quotas, default=None)


def _folders() -> Iterator[Path]:
    """Yield the folders of the groups that limit processor time, from the innermost to the outermost.

    In a container, the path may name groups around it that are not mounted. Its own group is then the root.
    """
    for line in _GROUPS.read_text().splitlines():
        number, controllers, group = line.split(":", 2)
        is_version_2 = number == "0"
        if is_version_2 or "cpu" in controllers.split(","):
            root = _MOUNTED if is_version_2 else _MOUNTED / "cpu"
            parts = Path(group).parts[1:]
            yield from (root.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _quota(folder: Path) -> list[float]:
    """Return the limit of a group in cores; an empty list if it has none."""
    if (file := folder / "cpu.max").exists():
        quota, period = file.read_text().split()
    elif (file := folder / "cpu.cfs_quota_us").exists():
        quota, period = file.read_text(), (folder / "cpu.cfs_period_us").read_text()
    else:
        return []
    return [int(quota) / int(period)] if quota != "max" and int(quota) > 0 else []
