"""The code of pages that use Spark runs, and prints what the pages show. See tests/markdown_blocks.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from markdown_blocks import PAGES, Page, blocks

from .read_limits import needs_read_limits

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


PAGES_WITH_SPARK = [page for page in PAGES if any(b.needs_spark and b.reason is None for b in blocks(page))]
PROGRESS = ("docs/handover.md", "docs/streaming.md")
"""Pages that show the progress of a query."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=needs_read_limits if page in PROGRESS else ()) for page in PAGES_WITH_SPARK],
)
def test_blocks(page: str, spark: SparkSession, tmp_path: Path) -> None:
    runner = Page(tmp_path, spark=spark)
    try:
        for block in blocks(page):
            if block.is_code and block.reason is None:
                runner.run(block)
    finally:
        # spark.catalog.listTables needs generated code, which the session does without.
        for table in spark.sql("SHOW TABLES").collect():
            spark.sql(f"DROP TABLE IF EXISTS {table.tableName}")
