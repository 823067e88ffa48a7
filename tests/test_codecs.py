"""The table of codecs is the only one: what else names codecs agrees with it."""

from __future__ import annotations

from typing import get_args

import pytest

from native_log.arguments import Compression
from native_log.codecs import CODECS, CODECS_BY_ID, Codec
from native_log.config import LogConfig
from native_log.records import EncodeOptions


def test_names_and_ids_are_kafka_s() -> None:
    assert {id: codec.name for id, codec in CODECS_BY_ID.items()} == {
        0: "none",
        1: "gzip",
        2: "snappy",
        3: "lz4",
        4: "zstd",
    }
    assert get_args(Compression) == tuple(CODECS)


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
def test_levels(codec: Codec) -> None:
    assert LogConfig().compression_level(codec.name) == codec.default_level
    if codec.default_level is None:
        assert not codec.has_level(codec.min_level)
        return
    assert codec.has_level(codec.default_level)
    for level in (codec.min_level, codec.max_level):
        assert codec.has_level(level)
        assert EncodeOptions(compression=codec.name, level=level).level == level
    for level in (codec.min_level - 1, codec.max_level + 1):
        assert not codec.has_level(level)
