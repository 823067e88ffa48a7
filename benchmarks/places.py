"""Where the benchmarks keep things."""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"


def scratch() -> Path:
    """Corpora, compiled classes, the benchmarks' own environment: some GB, safe to delete.

    KAFKALOG_BENCH_SCRATCH, else benchmarks/.scratch.
    """
    return Path(os.environ.get("KAFKALOG_BENCH_SCRATCH") or HERE / ".scratch").absolute()


def cache() -> Path:
    """Jars from Maven, shared with the broker tests: KAFKALOG_CACHE, else kafkalog/ in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("KAFKALOG_CACHE") or Path(home) / "kafkalog").absolute()
