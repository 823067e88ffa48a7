"""The numbers of cores that Spark sessions of the benchmarks use."""

import os

CORES = min(4, os.cpu_count() or 1)
"""All cores of the machine, at most four: figures of machines with more remain comparable."""
NUMBERS_OF_CORES = tuple(sorted({1, min(2, CORES), CORES}))
"""How work is measured that should become faster with each core."""
SEVERAL_CORES = tuple(sorted({min(2, CORES), CORES}))
