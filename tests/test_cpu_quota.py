"""The limit of processor time of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import cpu_quota, system

if TYPE_CHECKING:
    from pathlib import Path

VERSION_2 = "0::/kubepods/pod1/container\n"
VERSION_1 = "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        (VERSION_2, {"cpu.max": "150000 100000\n"}, 1.5),
        (VERSION_2, {"cpu.max": "max 100000\n"}, None),
        (
            VERSION_2,
            {"kubepods/pod1/cpu.max": "50000 100000", "kubepods/pod1/container/cpu.max": "max 1"},
            0.5,
        ),
        (VERSION_2, {"kubepods/pod1/cpu.max": "50000 100000", "cpu.max": "20000 100000"}, 0.2),
        (VERSION_1, {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        (VERSION_1, {"cpu/docker/1/cpu.cfs_quota_us": "10", "cpu/docker/1/cpu.cfs_period_us": "10"}, 1),
        (VERSION_1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        (VERSION_1, {"docker/1/cpu.max": "50000 100000"}, None),
        (VERSION_1, {"cpu/cpu.cfs_quota_us": "unreadable"}, None),
        ("", {}, None),
        ("no cgroups", {"cpu.max": "50000 100000"}, None),
    ],
)
def test_the_quota(
    groups: str,
    files: dict[str, str],
    quota: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_quota, "_MOUNTED", tmp_path / "mounted")
    monkeypatch.setattr(cpu_quota, "_GROUPS", tmp_path / "groups")
    (tmp_path / "groups").write_text(groups)
    for name, content in files.items():
        path = tmp_path / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert cpu_quota.cpu_quota.__wrapped__() == quota


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (0.1, 1), (1.5, 2), (9.5, 8)])
def test_cores_within_the_quota(quota: float | None, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(system, "cpu_quota", lambda: quota)
    assert system.available_cores() == cores
