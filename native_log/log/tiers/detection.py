"""Find out the layout of remote storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from native_log.log.tiers.aiven_tier import AivenTier
from native_log.log.tiers.tier import PlainTier

if TYPE_CHECKING:
    from native_log.log.tiers.tier import Tier
    from native_log.storage import Folder

RemoteLayout = Literal["auto", "local", "aiven", "pinterest"]


def find_tier(root: Folder, layout: RemoteLayout, prefix: str = "", keys: str | None = None) -> Tier | None:
    """Return the remote storage in a folder; None if no partition of that layout is there.

    Args:
        root: the folder.
        layout: how its objects are named; "auto": the first layout that has partitions.
        prefix: Aiven's `key.prefix`. With "auto", a prefix means Aiven's layout.
        keys: the folder with private keys for Aiven's layout.

    Raises FileNotFoundError, PermissionError, OSError: the folder cannot be listed.
    """
    if layout == "auto" and prefix:
        layout = "aiven"
    tiers: dict[str, Tier] = {}
    # A folder `t-0-<id>` is a partition in the local layout, and can be a topic `t-0` in Aiven's. Only the
    # latter contains folders of partitions.
    if layout in ("auto", "aiven"):
        tiers["aiven"] = AivenTier.find(root, prefix, keys)
    if layout == "local" or (layout == "auto" and not tiers["aiven"].folders):
        tiers["local"] = PlainTier.local(root)
    if layout == "pinterest" or (layout == "auto" and not any(tier.folders for tier in tiers.values())):
        tiers["pinterest"] = PlainTier.pinterest(root)
    return next((tier for tier in tiers.values() if tier.folders), None)
