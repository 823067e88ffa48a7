"""Compare kafkalog's recovery with Kafka's on many damaged logs.

python -m tests.broker.differential SEED             one case, and what differs
python -m tests.broker.differential FIRST SECONDS    cases from a seed on, for some time; then a summary
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .comparison import compare, fast_and_quiet, shrink
from .damaged_log import Case
from .expected_differences import reason_for
from .kafka_loader import KafkaLoader

if TYPE_CHECKING:
    from .comparison import Comparison


@dataclass
class Summary:
    """Counts of many comparisons. A case counts once for each kind and each reason."""

    cases: Counter[str] = field(default_factory=Counter)
    damages: Counter[str] = field(default_factory=Counter)
    rejections: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)

    def add(self, comparison: Comparison) -> None:
        kinds = comparison.unexpected_kinds()
        self.cases["all"] += 1
        self.cases["rejected by Kafka"] += comparison.rejection is not None
        self.cases["after a clean shutdown"] += comparison.is_clean_shutdown
        self.cases["cut by recovery"] += comparison.is_cut
        self.cases["equal"] += not comparison.differences
        self.cases["different as expected"] += bool(comparison.differences) and not kinds
        self.cases["different otherwise"] += bool(kinds)
        self.damages.update(comparison.log.kinds)
        self.unexpected.update(kinds)
        reasons = {reason_for(difference, comparison) for difference in comparison.differences}
        self.expected.update(reason for reason in reasons if reason is not None)
        if comparison.rejection is not None:
            self.rejections[comparison.rejection[:90]] += 1

    def __str__(self) -> str:
        return "\n".join(
            f"{name}:\n" + "".join(f"  {count:6} {kind}\n" for kind, count in counter.most_common())
            for name, counter in vars(self).items()
        )


def main() -> None:
    first, seconds = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0
    scratch = Path(tempfile.mkdtemp())
    loader = KafkaLoader(scratch / "classes")
    try:
        with fast_and_quiet():
            if seconds:
                _compare_many(first, seconds, loader, scratch)
            else:
                print(compare(Case(first), loader, scratch))
    finally:
        loader.close()
        shutil.rmtree(scratch)


def _compare_many(first: int, seconds: float, loader: KafkaLoader, scratch: Path) -> None:
    """Print the first two cases of each unexpected kind, as small as possible."""
    summary, end = Summary(), time.monotonic() + seconds
    for seed in itertools.count(first):
        comparison = compare(Case(seed), loader, scratch)
        if any(summary.unexpected[kind] < 2 for kind in comparison.unexpected_kinds()):
            print(shrink(comparison, loader, scratch), flush=True)
        summary.add(comparison)
        if time.monotonic() >= end:
            break
    print(f"seeds {first} to {seed}\n{summary}")


if __name__ == "__main__":
    main()
