"""The settings and state of a log that an append depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.log.writing.validation import LOG_APPEND_TIME

if TYPE_CHECKING:
    from native_log.config import LogConfig
    from native_log.log.producers.producer_states import ProducerStates


@dataclass(frozen=True, slots=True)
class AppendContext:
    """The settings and state of a log that an append depends on.

    Attributes:
        path: the log's path, for error messages.
        config: the log's settings.
        log_end_offset: the offset that the first appended record gets.
        leader_epoch: the leader epoch of the appended batches.
        producers: the state of all producers. Do not change it.
        now_ms: the current time in epoch ms.
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
    """

    path: object
    config: LogConfig
    log_end_offset: int
    leader_epoch: int
    producers: ProducerStates
    now_ms: int
    max_batch_bytes: int

    @property
    def append_time_ms(self) -> int | None:
        """The timestamp of all records if message.timestamp.type is LogAppendTime; else None."""
        return self.now_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else None
