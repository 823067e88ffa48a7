"""Directories of the benchmarks."""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"


def scratch() -> Path:
    """Return the directory for corpora, compiled classes and the virtual environment.

    It is KAFKALOG_BENCH_SCRATCH, or benchmarks/.scratch if that is not set. It takes some GB and can be
    deleted at any time.
    """
    return Path(os.environ.get("KAFKALOG_BENCH_SCRATCH") or HERE / ".scratch").absolute()


def cache() -> Path:
    """Return the directory for jars from Maven, which the broker tests share.

    It is KAFKALOG_CACHE, or kafkalog/ in the user's cache directory if that is not set.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("KAFKALOG_CACHE") or Path(home) / "kafkalog").absolute()
