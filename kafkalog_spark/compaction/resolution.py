"""Tasks that decide what is left: of a bundle of keys the offsets that survive, of a partition the round."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import group_by_number, row_batch
from kafkalog_spark.compaction.merge import between, survivors_of
from kafkalog_spark.compaction.messages import RoundPlan
from kafkalog_spark.compaction.rounds import planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkalog_spark.cluster import Row
    from kafkalog_spark.compaction.messages import Settings


@dataclass(frozen=True, slots=True)
class RoundLayout:
    """Where what is decided on a round belongs: `borders` are the base offsets of its groups and its end."""

    first_bundle: int
    first_group: int
    borders: tuple[int, ...]


def decide(
    batches: Iterator[pa.RecordBatch], settings: Settings, layouts: Sequence[RoundLayout], bundles: int
) -> Iterator[pa.RecordBatch]:
    """Bundles by their numbers, and behind those by number of round what `planned` takes; all of a number in
    one task -> by number of group, what is planned for it (RoundPlan, with that group alone; part 0) and its
    survivors, as bitmaps (other parts; or a note, of an error).
    """
    first_bundles = [layout.first_bundle for layout in layouts]
    for number, found in group_by_number(batches).items():
        if number < bundles:
            layout = layouts[bisect_right(first_bundles, number) - 1]
            yield from _survivors(number, found, layout)
        else:
            layout = layouts[number - bundles]
            yield from _groups(planned(found, settings), layout)


def _survivors(number: int, found: Sequence[Row], layout: RoundLayout) -> Iterator[pa.RecordBatch]:
    bundles = [pickle.loads(one.payload) for one in found]  # noqa: S301 (of our own tasks)
    try:
        survivors = survivors_of(bundles)
    except OSError as error:
        yield row_batch(layout.first_group, None, number + 1, str(error).encode())
        return
    for group, of_group in between(survivors, layout.borders):
        yield row_batch(layout.first_group + group, of_group.to_bytes(), number + 1)


def _groups(plan: RoundPlan, layout: RoundLayout) -> Iterator[pa.RecordBatch]:
    *bases, _ = layout.borders
    if plan.round is None:
        of_groups = [plan] * len(bases)
    elif [group.base_offset for group in plan.round.groups] != bases:
        of_groups = [RoundPlan(error="its segments changed meanwhile: stop what else works on it")] * len(
            bases
        )
    else:
        of_groups = [
            RoundPlan(replace(plan.round, groups=(group,), aborted=b""), 0 if index else plan.null_keys)
            for index, group in enumerate(plan.round.groups)
        ]
    for group, of_group in enumerate(of_groups, layout.first_group):
        yield row_batch(group, pickle.dumps(of_group))
