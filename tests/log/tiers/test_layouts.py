"""The names of objects in remote storage."""

from __future__ import annotations

import pytest

from native_log.log.tiers.layouts import local, pinterest
from native_log.log.tiers.layouts.names import ObjectName, PartitionName

ID = "lH9-ByqQRpObjAzCP2Gz9g"
OTHER = "-_8ozw2RRSKCqHlNJWpx-_"


@pytest.mark.parametrize(
    ("folder", "partition"),
    [
        (f"orders-0-{ID}", PartitionName("orders", 0, ID)),
        (f"or-ders-2-12-{OTHER}", PartitionName("or-ders-2", 12, OTHER)),
        (f"a.b_c-0-{ID}", PartitionName("a.b_c", 0, ID)),
        ("orders-0", None),
        (f"orders-{ID}", None),
        (f"orders-0-{ID}x", None),
        (f"-0-{ID}", None),
    ],
)
def test_folders_of_local_tiered_storage(folder: str, partition: PartitionName | None) -> None:
    assert local.parse_partition(folder) == partition


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f"00000000000000000223-{ID}.log", ObjectName(223, ID, "log")),
        (
            f"00000000000000000000-{OTHER}.leader_epoch_checkpoint",
            ObjectName(0, OTHER, "leader_epoch_checkpoint"),
        ),
        (f"7-{ID}.txnindex", ObjectName(7, ID, "txnindex")),
        (f"7-{ID}.tmp", None),
        ("00000000000000000223.log", None),
        (f"-{ID}.log", None),
    ],
)
def test_objects_of_local_tiered_storage(name: str, parts: ObjectName | None) -> None:
    assert local.parse_object(name) == parts


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("00000000000000000047.log", ObjectName(47, "", "log")),
        ("00000000000000000047.timeindex", ObjectName(47, "", "timeindex")),
        ("00000000000000000047.snapshot", None),
        ("offset.wm", None),
        ("_metadata", None),
    ],
)
def test_objects_of_pinterest(name: str, parts: ObjectName | None) -> None:
    assert pinterest.parse_object(name) == parts


def test_folders_of_pinterest() -> None:
    assert pinterest.parse_partition("pins-2-11") == PartitionName("pins-2", 11, None)
    assert pinterest.parse_partition("prod01") is None
