"""Both implementations of the record formats, so that every test of a rule is a test of each."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from native_log.records import reference

REFERENCE = SimpleNamespace(
    name="reference", scan=reference.scan, decode=reference.decode, find_batch=reference.find_batch
)
try:
    from native_log.records import kernel

    KERNEL = SimpleNamespace(
        name="kernel", scan=kernel.scan, decode=kernel.decode, find_batch=kernel.find_batch
    )
except ImportError:
    if os.environ.get("KAFKALOG_REQUIRE_KERNEL") == "1":
        raise
    KERNEL = None

needs_kernel = pytest.mark.skipif(KERNEL is None, reason="the compiled kernel is not built (make kernel)")


@pytest.fixture(
    params=[pytest.param(KERNEL, id="kernel", marks=needs_kernel), pytest.param(REFERENCE, id="reference")]
)
def impl(request: pytest.FixtureRequest) -> SimpleNamespace:
    """The functions scan, decode and find_batch of one implementation."""
    return request.param
