"""Both implementations of the record formats, so that every test of a rule is a test of each."""

from __future__ import annotations

import os
from types import ModuleType, SimpleNamespace

import pytest

from native_log.records import DecodeOptions, EncodeOptions, RewriteOptions, TextOptions, reference

from .keywords import with_keywords


def implementation(name: str, module: ModuleType | SimpleNamespace) -> SimpleNamespace:
    """The functions and classes of an implementation; fields of options are keywords of the call."""
    names = [name for name in reference.__all__ if name not in OPTIONS]
    return SimpleNamespace(
        name=name,
        **{name: getattr(module, name) for name in names},
        **{name: with_keywords(getattr(module, name), options) for name, options in OPTIONS.items()},
    )


OPTIONS = {
    "decode": DecodeOptions,
    "decode_file": DecodeOptions,
    "encode": EncodeOptions,
    "format_batches": TextOptions,
    "rewrite": RewriteOptions,
    "rewrite_file": RewriteOptions,
}
REFERENCE = implementation("reference", reference)
try:
    from native_log.records import kernel, kernel_writing

    KERNEL_FUNCTIONS = SimpleNamespace(**{**vars(kernel_writing), **vars(kernel)})
    KERNEL = implementation("kernel", KERNEL_FUNCTIONS)
except ImportError:
    if os.environ.get("KAFKALOG_REQUIRE_KERNEL") == "1":
        raise
    KERNEL = KERNEL_FUNCTIONS = None

needs_kernel = pytest.mark.skipif(KERNEL is None, reason="the compiled kernel is not built (make kernel)")


@pytest.fixture(
    params=[pytest.param(KERNEL, id="kernel", marks=needs_kernel), pytest.param(REFERENCE, id="reference")]
)
def impl(request: pytest.FixtureRequest) -> SimpleNamespace:
    """The functions and classes of one implementation."""
    return request.param
