"""The tables of the documentation are complete and current."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

import pytest
from markdown_blocks import ROOT

from kafkalog_spark.options.names import (
    KAFKA_SOURCE_OPTIONS,
    KAFKALOG_OPTIONS,
    READ_OPTIONS,
    STREAM_OPTIONS,
)
from kafkalog_spark.options.producer import EFFECTIVE_OPTIONS, PRODUCER_OPTIONS, REJECTED_OPTIONS
from kafkalog_spark.options.read import parse_read_options
from kafkalog_spark.options.stream import parse_stream_options
from kafkalog_spark.options.write import SINK_OPTIONS, parse_write_options
from kafkalog_spark.schema import RECORDS
from kafkalog_spark.views import VIEWS
from kafkalog_spark.views.internal import INTERNAL_VIEWS
from native_log.config import SETTINGS_BY_NAME, LogConfig
from native_log.producer.settings import BROKER_SETTINGS, SETTINGS, ProducerConfig

if TYPE_CHECKING:
    from types import ModuleType

PATH = {"path": "/var/kafka-logs"}


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_current(tables: ModuleType) -> None:
    stale = [p.name for p in tables.DOCS.rglob("*.md") if tables.render(p.read_text()) != p.read_text()]
    assert stale == [], "run: python docs/tables.py"


def test_every_table_is_in_a_page(tables: ModuleType) -> None:
    text = "".join(page.read_text() for page in tables.DOCS.rglob("*.md"))
    assert {name for name in tables.TABLES if f"<!-- table: {name} -->" not in text} == set()


def test_every_option_is_in_a_page() -> None:
    pages = ("spark-read", "streaming", "spark-write")
    read, stream, write = ((ROOT / "docs" / f"{page}.md").read_text() for page in pages)
    read += stream
    assert {name for name in READ_OPTIONS.values() if f"`{name}`" not in read} == set()
    assert {name for name in (*SINK_OPTIONS, *PRODUCER_OPTIONS) if f"`{name}`" not in write} == set()


def test_every_setting_is_in_a_page() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    assert {name for name in SETTINGS_BY_NAME if f"`{name}`" not in text} == set()


def test_every_producer_setting_is_in_a_page() -> None:
    text = (ROOT / "docs" / "producer.md").read_text()
    assert {name for name in SETTINGS | BROKER_SETTINGS if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("config", [LogConfig, ProducerConfig])
def test_every_setting_has_a_meaning(tables: ModuleType, config: type[LogConfig | ProducerConfig]) -> None:
    meanings = tables._attribute_docstrings(config)
    assert set(meanings) == set(config.__dataclass_fields__)
    assert all(re.fullmatch(r"[A-Z`].*\.", meaning) for meaning in meanings.values())


def test_every_column_is_in_a_page() -> None:
    text = "".join((ROOT / "docs" / page).read_text() for page in ("spark-read.md", "internal-topics.md"))
    views = (*VIEWS.values(), *INTERNAL_VIEWS.values())
    names = {*RECORDS.names, *(name for view in views for name in view.schema.names)}
    assert {name for name in names if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("name", [*KAFKA_SOURCE_OPTIONS, *KAFKALOG_OPTIONS])
def test_the_default_of_a_read_option_has_no_effect(name: str) -> None:
    default = {**KAFKA_SOURCE_OPTIONS, **KAFKALOG_OPTIONS}[name].default
    if default:
        assert parse_read_options({**PATH, name: default}) == parse_read_options(PATH)


@pytest.mark.parametrize("name", STREAM_OPTIONS)
def test_the_default_of_a_stream_option_has_no_effect(name: str) -> None:
    default = STREAM_OPTIONS[name].default
    if default:
        assert parse_stream_options({**PATH, name: default}) == parse_stream_options(PATH)


@pytest.mark.parametrize("name", [*SINK_OPTIONS, *EFFECTIVE_OPTIONS])
def test_the_default_of_a_write_option_has_no_effect(name: str) -> None:
    default = {**SINK_OPTIONS, **EFFECTIVE_OPTIONS}[name].default
    if default:
        assert parse_write_options({**PATH, name: default}) == parse_write_options(PATH)


def test_producer_options_are_effective_rejected_or_ignored() -> None:
    assert {*EFFECTIVE_OPTIONS, *REJECTED_OPTIONS} <= set(PRODUCER_OPTIONS)
    for name in REJECTED_OPTIONS:
        with pytest.raises(ValueError, match="not supported"):
            parse_write_options({**PATH, name: "x"})
