"""A log at the moment that it is given records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.log.writing.validation import LOG_APPEND_TIME

if TYPE_CHECKING:
    from native_log.config import LogConfig
    from native_log.log.producers.producer_states import ProducerStates


@dataclass(frozen=True, slots=True)
class AppendContext:
    """What records have to comply with to get into a log, and what they get there.

    Attributes:
        path: of the log, for errors.
        config: its settings.
        log_end_offset: the offset of the first one.
        leader_epoch: of the batches.
        producers: state of the producers, to be looked at only.
        now_ms: the time.
        max_batch_bytes: a batch that claims, or decompresses to, more is damaged.
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
        """The time that the log gives to all records (message.timestamp.type); None: they have their own."""
        return self.now_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else None
