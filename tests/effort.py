"""How many generated inputs the tests use.

KAFKALOG_TEST_EFFORT multiplies them: 1 by default, so that `make check` is quick.
"""

from __future__ import annotations

import os

EFFORT = float(os.environ.get("KAFKALOG_TEST_EFFORT") or 1)


def examples(count: int) -> int:
    """Return a number of examples for hypothesis: `count`, multiplied by the effort."""
    return max(1, round(count * EFFORT))
