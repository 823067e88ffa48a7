"""Which Spark limits the micro-batches of Python data sources."""

from __future__ import annotations

import pyspark
import pytest

HAS_READ_LIMITS = not pyspark.__version__.startswith(("4.0.", "4.1."))
"""Without them, a query with availableNow ends after one micro-batch, and its progress has no JSON."""

needs_read_limits = pytest.mark.skipif(not HAS_READ_LIMITS, reason="Spark has no read limits before 4.2")
