"""The options of `kafkalog dump-log`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log.cli.dump_log.decoders import Decoder


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of kafka-dump-log, by its names.

    Attributes:
        decoder: decodes keys and values. If there is one, records are printed.
    """

    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_bytes: int | None = None
    decoder: Decoder | None = None
