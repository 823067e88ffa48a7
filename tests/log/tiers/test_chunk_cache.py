"""The cache of restored chunks."""

from __future__ import annotations

from native_log.log.tiers.chunk_cache import ChunkCache


def test_the_chunks_that_were_used_last_are_kept() -> None:
    cache, restored = ChunkCache(max_bytes=10), list[str]()

    def get(name: str, size: int = 5) -> bytes:
        def restore() -> bytes:
            restored.append(name)
            return name.encode() * size

        return cache.get(name, restore)

    for name in ("a", "b", "a", "c", "a", "b"):  # c takes the place of b
        assert get(name) == name.encode() * 5
    assert restored == ["a", "b", "c", "b"]
    assert get("large", 3) == b"large" * 3
    assert get("large", 3) == b"large" * 3
    assert restored[4:] == ["large", "large"]  # too large to be kept
    assert get("a") == b"aaaaa"
    assert len(restored) == 6
