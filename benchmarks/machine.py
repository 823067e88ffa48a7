"""The numbers of cores that Spark sessions of the benchmarks use."""

import os

CORES = min(4, os.cpu_count() or 1)
"""The cores of the machine, at most four, so that results of larger machines remain comparable."""
NUMBERS_OF_CORES = tuple(sorted({1, min(2, CORES), CORES}))
"""The numbers of cores with which scaling is measured."""
SEVERAL_CORES = tuple(sorted({min(2, CORES), CORES}))
"""The numbers of cores with which queries and sinks of Spark are measured."""
