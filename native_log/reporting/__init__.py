"""A report about log directories: gather figures, decide findings, render one HTML page.

| Module | Responsibility |
|---|---|
| `survey` | gathers `figures` from log directories; the only part that reads files |
| `findings`, `summaries`, `sections` | decide what the page says; pure |
| `charts`, `page` | render it as HTML; pure. Only these need Matplotlib and Jinja2 |
"""

from __future__ import annotations

from native_log.reporting.html_report import report
from native_log.reporting.layout import MARK

__all__ = ["MARK", "report"]
