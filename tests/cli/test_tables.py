from __future__ import annotations

from native_log.cli.tables import format_table

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
