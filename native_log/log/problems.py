"""The problems that verify reports, and the advice that goes with them."""

from __future__ import annotations

from dataclasses import dataclass

from native_log.checkpoints.names import METADATA_TOPIC

DROP_MALFORMED = "The records after it can be read with mode dropMalformed"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a log that affects a broker or a reader. The fields are those of PROBLEM_SCHEMA."""

    kind: str
    path: str
    position: int | None
    offset: int | None
    problem: str
    advice: str

    def __str__(self) -> str:
        where = [self.path]
        if self.position is not None:
            where.append(f"position {self.position}")
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        return f"{', '.join(where)}: {self.problem}. {self.advice}"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about each kind of problem.

    Attributes:
        torn: damage at the end of a log, as a crash leaves it.
        damaged: damage that is followed by valid batches.
        disordered: batches whose offsets do not increase.
        reindex: wrong indexes.
        epochs: a wrong leader-epoch-checkpoint.
    """

    torn: str
    damaged: str
    disordered: str
    reindex: str
    epochs: str


_OF_A_BROKER = Advice(
    torn="kafkalog recover truncates it, as a broker does",
    damaged=(
        "Take the file from another replica. kafkalog recover, like a broker's recovery, also removes "
        f"everything after the damage. {DROP_MALFORMED}"
    ),
    disordered=(
        "Take the file from another replica. A broker serves the batches as they are, or empties the whole "
        "segment when it recovers it; kafkalog recover does the same, but ends the log at an offset that is "
        f"2^31 or more above the segment's base offset. {DROP_MALFORMED}"
    ),
    reindex="kafkalog reindex rebuilds it",
    epochs="Remove the file and run kafkalog recover --from-start, which rebuilds it from the batches",
)
_OF_THE_CONTROLLER = Advice(
    torn="The controller truncates it when it starts, because it recovers this log itself",
    damaged=(
        "The controller truncates its log here when it starts, and fetches the rest from the other "
        "controllers. If there is no other controller, restore the directory from a backup first. "
        + DROP_MALFORMED
    ),
    disordered=f"Restore the directory from a backup, or from another controller. {DROP_MALFORMED}",
    reindex="The controller rebuilds it when it starts",
    epochs="Restore the directory from a backup, or from another controller",
)


def advice_for(topic: str) -> Advice:
    """Return the advice for the log of a topic.

    `__cluster_metadata` has its own: a controller recovers this log itself, from its beginning, each time it
    starts (Kafka: KafkaRaftLog), and no kafkalog command changes it.
    """
    return _OF_THE_CONTROLLER if topic == METADATA_TOPIC else _OF_A_BROKER
