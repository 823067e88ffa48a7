"""The kinds of live logs, which have the same attributes: `log`, `path`, `leader_epochs`, ..."""

from __future__ import annotations

from native_log.log.live.live_log import LiveLog
from native_log.log.live.live_merged_log import LiveMergedLog
from native_log.log.live.live_tiered_log import LiveTieredLog

AnyLiveLog = LiveLog | LiveMergedLog | LiveTieredLog
