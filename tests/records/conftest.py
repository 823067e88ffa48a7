"""Both implementations of the record formats, so that every test of a rule is a test of each."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from native_log.records import DecodeOptions, EncodeOptions, RewriteOptions, reference

from .keywords import with_keywords

REFERENCE = SimpleNamespace(
    name="reference",
    scan=reference.scan,
    scan_headers=reference.scan_headers,
    decode=with_keywords(reference.decode, DecodeOptions),
    decode_file=with_keywords(reference.decode_file, DecodeOptions),
    encode=with_keywords(reference.encode, EncodeOptions),
    patch=reference.patch,
    write_prefixes=reference.write_prefixes,
    murmur2=reference.murmur2,
    partition_of_keys=reference.partition_of_keys,
    deal=reference.deal,
    find_batch=reference.find_batch,
    BatchHeaders=reference.BatchHeaders,
    OffsetMap=reference.OffsetMap,
    KeyBuckets=reference.KeyBuckets,
    Survivors=reference.Survivors,
    merge=reference.merge,
    rewrite=with_keywords(reference.rewrite, RewriteOptions),
    rewrite_file=with_keywords(reference.rewrite_file, RewriteOptions),
)
try:
    from native_log.records import kernel, kernel_compaction

    KERNEL = SimpleNamespace(
        name="kernel",
        scan=kernel.scan,
        scan_headers=kernel.scan_headers,
        decode=with_keywords(kernel.decode, DecodeOptions),
        decode_file=with_keywords(kernel.decode_file, DecodeOptions),
        encode=with_keywords(kernel.encode, EncodeOptions),
        patch=kernel.patch,
        write_prefixes=kernel.write_prefixes,
        murmur2=kernel.murmur2,
        partition_of_keys=kernel.partition_of_keys,
        deal=kernel.deal,
        find_batch=kernel.find_batch,
        BatchHeaders=kernel_compaction.BatchHeaders,
        OffsetMap=kernel_compaction.OffsetMap,
        KeyBuckets=kernel_compaction.KeyBuckets,
        Survivors=kernel_compaction.Survivors,
        merge=kernel_compaction.merge,
        rewrite=with_keywords(kernel_compaction.rewrite, RewriteOptions),
        rewrite_file=with_keywords(kernel_compaction.rewrite_file, RewriteOptions),
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
