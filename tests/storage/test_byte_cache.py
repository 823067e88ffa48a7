"""A cache of bytes up to a total size."""

from __future__ import annotations

import pickle

from native_log.storage import ByteCache


def test_the_values_that_were_used_last_are_kept() -> None:
    cache = ByteCache(max_bytes=10)
    cache.put("a", b"aaaaa")
    cache.put("b", b"bbbbb")
    assert cache.get("a") == b"aaaaa"
    cache.put("c", b"ccccc")  # takes the place of b
    assert [cache.get(name) for name in "abc"] == [b"aaaaa", None, b"ccccc"]
    cache.put("a", b"other")
    assert cache.get("a") == b"aaaaa"
    cache.put("large", bytes(11))
    assert cache.get("large") is None
    assert cache.get("c") == b"ccccc"


def test_a_pickled_copy_is_empty() -> None:
    cache = ByteCache(max_bytes=10)
    cache.put("a", b"aaaaa")
    copy = pickle.loads(pickle.dumps(cache))
    assert copy.get("a") is None
    copy.put("large", bytes(11))
    assert copy.get("large") is None
