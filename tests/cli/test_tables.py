from __future__ import annotations

import pytest

from native_log.cli.tables import columns_that_fit, format_table

HEAD = ("PARTITION", "SIZE", "")
ROWS = [("orders-0", 5, "kept"), ("p-1", 17, None)]
DETAILS = ["the segment is active, it ends above the high watermark", None]


def test_without_a_width_a_row_is_a_line() -> None:
    assert list(format_table(HEAD, ROWS, DETAILS)) == [
        "PARTITION  SIZE",
        "orders-0      5  kept  the segment is active, it ends above the high watermark",
        "p-1          17",
    ]


def test_details_wrap_below_their_row() -> None:
    assert list(format_table(HEAD, ROWS, DETAILS, width=40)) == [
        "PARTITION  SIZE",
        "orders-0      5  kept",
        "    the segment is active, it ends above",
        "    the high watermark",
        "p-1          17",
    ]


def test_a_long_name_has_a_line_of_its_own() -> None:
    assert list(format_table(("NAME", "SIZE"), [("n" * 38, 5), ("a", 1234)], width=40)) == [
        "NAME",
        "  SIZE",
        "n" * 38,
        "     5",
        "a",
        "  1234",
    ]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, ["NAME", "SIZE", "TIME", "POLICY"]),
        (27, ["NAME", "SIZE", "TIME", "POLICY"]),
        (26, ["NAME", "SIZE", "POLICY"]),
        (20, ["NAME", "SIZE", "POLICY"]),
        (19, ["NAME", "POLICY"]),
        (3, ["NAME", "POLICY"]),
    ],
)
def test_columns_are_left_out_in_their_order(width: int, shown: list[str]) -> None:
    head = ["NAME", "SIZE", "TIME", "POLICY"]
    rows = [("orders", 12, "08:53", "delete"), ("t", None, "08:54", "")]
    indexes = columns_that_fit(head, rows, width, ["TIME", "SIZE"])
    assert [head[index] for index in indexes] == shown
    lines = list(format_table(shown, [[row[index] for index in indexes] for row in rows]))
    assert len(shown) == 2 or max(map(len, lines)) <= width


def test_tables_of_any_width_have_all_words() -> None:
    words = {
        "orders-0",
        "5",
        "kept",
        "p-1",
        "17",
        *["the", "segment", "is", "active,", "it", "ends", "above", "high", "watermark"],
    }
    for width in (None, 1, 20, 40, 80, 200):
        assert words <= set(" ".join(format_table(HEAD, ROWS, DETAILS, width)).split())
