"""The page: escaping, self-containment, size."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from typing import TYPE_CHECKING

import native_log
from native_log.reporting.charts import byte_ticks, draw
from native_log.reporting.figures import (
    CodecFigures,
    CodecSamples,
    CompactionFigures,
    CoordinatorFigures,
    Extent,
    Failure,
    GroupFigures,
    OpenTransaction,
    ProblemKind,
    ReportFigures,
    RetentionFigures,
    TransactionalId,
)
from native_log.reporting.layout import MARK, Bars, Series
from native_log.reporting.page import render_page
from native_log.reporting.sections import sections
from native_log.reporting.text import displayed, shortened
from tests.builders.batches import batch, with_right_crc
from tests.builders.golden import GOLDEN
from tests.builders.logs import write_log
from tests.reporting.examples import DAY_MS, DIRECTORY, NOW_MS, partition, report

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = [
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)",
    "$\\frac{1}{0}$ $x^{$",
    "{{ 7 * 7 }}{% raw %}",
    "]]><!--",
    "&lt;b&gt;&amp;",
    "a\x00b\x1b[31m\u202etxt\ud800\u2028",
    "https://example.com/x.png",
    "x" * 5000,
]


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def everything(name: str) -> ReportFigures:
    """Return figures in which all text from the data is `name`."""
    first = partition(
        name,
        log_dir=name,
        policy=name,
        is_compacted=True,
        dirty_ratio=0.7,
        is_cleanable=True,
        cleanable_since_ms=NOW_MS - 9 * DAY_MS,
        missing_start=name,
        missing_end=name,
        missing_segments=name,
        open_transactions=(OpenTransaction(1, 0, 5, NOW_MS - 2 * DAY_MS),),
    )
    other = partition(
        name, 1, size_bytes=2**30, segment_sizes=(2**30,), segment_times_ms=(NOW_MS + 3 * DAY_MS,)
    )
    small = [partition(name, number, size_bytes=1) for number in range(2, 8)]
    group = GroupFigures(name, name, name, 1, 2, 1, 5, (5, name), 1, 1, 1, NOW_MS)
    share = replace(group, type="share")
    return report(
        first,
        other,
        *small,
        directories=(
            replace(DIRECTORY, path=name, cluster_id=name, set_aside={name: (1, 1)}, clean_shutdown=False),
            replace(DIRECTORY, path=name, cluster_id=f"{name}2", lock_holder=1, has_interrupted_write=True),
        ),
        failures=(Failure(name, name),),
        coordinators=CoordinatorFigures(
            (group, share), (TransactionalId(name, 1, name, None, 60_000, 1),), 1, {name: name}
        ),
        samples=CodecSamples({(name, "zstd"): CodecFigures(1, 100, 300, 100)}, 100, 2),
        metadata_unreadable=name,
        problems=(ProblemKind(name, 3, (name, name)),),
        compaction=(CompactionFigures(name, 1, 100, 40, 10, 4, 1, 1, (Failure(name, name),)),),
        retention=(
            RetentionFigures(name, 1, 2, 60, frozenset({name}), failed=(Failure(name, name),)),
            RetentionFigures(f"{name}2", kept_by="compacted"),
        ),
        extent=Extent(verification=True, compaction=True, retention=True),
    )


@pytest.fixture(scope="module")
def harmless() -> list[str]:
    """Return the tags of a page with harmless text."""
    return [tag for tag, _ in Elements(render_page(everything("orders"), "1")).elements]


@pytest.mark.parametrize("name", ["".join(HOSTILE[:4]), "".join(HOSTILE[4:])])
def test_text_from_the_data_is_only_text(name: str, harmless: list[str]) -> None:
    page = render_page(everything(name), "1")
    parsed = Elements(page)
    assert not {"script", "img", "iframe", "object", "embed", "link", "base", "form", "b"} & {
        tag for tag, _ in parsed.elements
    }
    for tag, attributes in parsed.elements:
        assert not [key for key in attributes if key.startswith("on")], tag
    assert [
        tag for tag, _ in parsed.elements if tag not in ("text", "tspan", "g", "path", "use", "defs")
    ] == [tag for tag in harmless if tag not in ("text", "tspan", "g", "path", "use", "defs")]
    assert shortened(name, 1000) in parsed.text
    page.encode()  # no lone surrogates


def test_the_page_loads_nothing() -> None:
    page = native_log.report(GOLDEN / "kafka-4.1/whole-broker/data", now_ms=NOW_MS)
    assert not re.search(r"(https?:)?//[a-z]", page)
    assert "@import" not in page
    for tag, attributes in Elements(page).elements:
        assert tag not in ("script", "link", "img", "iframe")
        for key in ("src", "href", "xlink:href", "srcset"):
            assert (attributes.get(key) or "#").startswith("#")
        assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", str(attributes)))
    policy = next(
        attributes["content"]
        for tag, attributes in Elements(page).elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_no_records_are_in_the_page() -> None:
    data = GOLDEN / "kafka-4.1/whole-broker/data"
    page = native_log.report(data, batches=True, verify=True, compaction=True, retention=True, now_ms=NOW_MS)
    log = native_log.LogDir(data).partition("events", 0)
    rows = log.read(columns=["key", "value"]).read_all().to_pylist()
    texts = {text for row in rows for text in row.values() if text and len(text) > 4}
    assert texts
    assert not [text for text in texts if text in page.encode()]


def test_all_anchors_exist() -> None:
    elements = Elements(render_page(report(), "1")).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    anchors = {
        (attributes.get("href") or attributes.get("xlink:href") or "")[1:]
        for tag, attributes in elements
        if tag in ("a", "use")
    }
    assert anchors <= set(ids)
    labels = {attributes["aria-labelledby"] for _, attributes in elements if "aria-labelledby" in attributes}
    assert labels <= set(ids)


def test_many_partitions_and_groups_make_a_small_page() -> None:
    partitions = [partition(f"topic-{number // 10}", number % 10) for number in range(10_000)]
    groups = tuple(GroupFigures(f"group-{number}", lag=number, known=1) for number in range(5000))
    page = render_page(report(*partitions, coordinators=CoordinatorFigures(groups, ())), "1")
    assert len(page) < 300_000
    assert "9,980 more partitions not shown" in page
    assert "(980 other topics)" in page


def groups_text(*groups: GroupFigures, unread: dict[str, str] | None = None) -> str:
    coordinators = CoordinatorFigures(groups, (), unread=unread or {})
    text = Elements(render_page(report(coordinators=coordinators), "1")).text
    return text[
        text.index("Lag is the high watermark") : text.index("Verification", text.index("Lag is the"))
    ]


def test_share_groups_and_consumer_groups_are_in_one_table() -> None:
    consumer = GroupFigures("a", "consumer", partitions=1, known=1, lag=5, largest_lag=(5, "orders-0"))
    share = GroupFigures("b", "share", partitions=1, known=1, lag=7, largest_lag=(7, "orders-1"))
    text = groups_text(consumer, share)
    assert text.index("7 (orders-1)") < text.index("5 (orders-0)")
    assert "without those that were acknowledged or archived" in text
    assert "unknown" not in text
    assert "share group" not in groups_text(consumer)


def test_share_groups_without_their_states() -> None:
    unread = {"__share_group_state": "__share_group_state is not in these directories."}
    assert (
        "The lag of share groups is unknown. __share_group_state is not in these directories."
    ) in groups_text(GroupFigures("b", "share"), unread=unread)


def test_share_groups_without_other_groups() -> None:
    unread = {"__consumer_offsets": "__consumer_offsets is not in these directories."}
    text = groups_text(GroupFigures("b", "share", known=1, lag=7), unread=unread)
    assert "Only share groups are known. __consumer_offsets is not in these directories." in text


def test_nothing_to_show() -> None:
    empty = partition(
        size_bytes=0,
        log_end_offset=0,
        segment_sizes=(),
        segment_times_ms=(),
        first_timestamp_ms=None,
        last_timestamp_ms=None,
    )
    page = render_page(report(empty), "1")
    assert "No segment has a known time." in page
    assert "Nothing that was examined needs attention." in page
    assert render_page(replace(report(), partitions=()), "1")


def test_a_codec_that_does_not_exist(tmp_path: Path) -> None:
    """A header can have any codec."""
    data = bytearray(batch(0))
    data[22] |= 5
    write_log(tmp_path / "t-0", {0: [with_right_crc(bytes(data))]})
    page = native_log.report(tmp_path, batches=True)
    assert re.findall("<bdi>(unknown[^<]*)", page) == ["unknown(5)"]


def test_the_page_is_the_same_for_the_same_figures() -> None:
    assert render_page(everything("a"), "1") == render_page(everything("a"), "1")


def test_what_was_not_examined_is_said() -> None:
    text = Elements(render_page(report(partition(is_compacted=True)), "1")).text
    assert "Checksums and records were not checked" in text
    assert "not verified" in text
    assert "Use --verify or --full" in text
    assert "Use --compaction or --full" in text.replace("\n", " ")
    assert "Use --retention or --full" in text


def test_a_report_can_be_recognized() -> None:
    assert render_page(report(), "1").startswith(f"<!doctype html>\n{MARK}\n")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_label_in_a_chart(name: str) -> None:
    svg = draw(Bars("title", (shortened(name, 32),), (Series("size", (5,)),), "bytes"))
    assert svg.startswith("<svg") and svg.endswith("</svg>")
    assert "<script" not in svg and "<img" not in svg
    assert Elements(svg).text.count(shortened(name, 32)) >= 1


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (0, [0]),
        (5, [0, 1, 2, 3, 4, 5]),
        (36 * 1024, [0, 10240, 20480, 30720]),
        (1000, [0, 200, 400, 600, 800, 1000]),
        (7 * 2**40, [0, 2 * 2**40, 4 * 2**40, 6 * 2**40]),
        (3000, [0, 500, 1000, 1500, 2000, 2500, 3000]),
        (4000, [0, 1024, 2048, 3072]),
    ],
)
def test_ticks_are_round_sizes(largest: int, ticks: list[int]) -> None:
    assert byte_ticks(largest) == ticks


def test_names_are_shortened_in_the_middle() -> None:
    assert shortened("a" * 20 + "b" * 20, 11) == "aaaaa…bbbbb"
    assert shortened("short", 11) == "short"
    assert displayed("a\x1b\u202e\udcff\n") == "a\\x1b\\u202e\\udcff\\n"


def test_every_table_has_as_many_cells_as_titles() -> None:
    for section in sections(everything("orders")):
        for part in section.parts:
            if hasattr(part, "rows"):
                assert {len(row) for row in part.rows} <= {len(part.head)}
                assert all(index < len(part.head) for index in part.numbers)
