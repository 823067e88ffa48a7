"""What verify finds: problems, and what to do about them."""

from __future__ import annotations

from dataclasses import dataclass

from native_log.checkpoints.names import METADATA_TOPIC

DROP_MALFORMED = "What follows can be read with mode dropMalformed"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a broker, or a reader, would meet. Fields as in PROBLEM_SCHEMA."""

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
    """What to do about damage, and about derived files that are wrong.

    Attributes:
        torn: the end of a log that a crash left.
        damaged: bytes with batches behind them.
        disordered: batches that are not in the order of offsets.
        reindex: indexes. `epochs`: leader epochs.
    """

    torn: str
    damaged: str
    disordered: str
    reindex: str
    epochs: str


_OF_A_BROKER = Advice(
    torn="kafkalog recover cuts it off, as a broker does",
    damaged=(
        "Take the file from another replica: kafkalog recover, or a broker that finds it, cuts off all that "
        f"follows too. {DROP_MALFORMED}"
    ),
    disordered=(
        "Take the file from another replica: a broker serves it as it is, or empties the whole segment when "
        f"it recovers it, and so does kafkalog recover. {DROP_MALFORMED}"
    ),
    reindex="kafkalog reindex rebuilds it",
    epochs="Remove the file and run kafkalog recover --from-start: it is rebuilt from the batches",
)
_OF_THE_CONTROLLER = Advice(
    torn="The controller cuts it off when it starts: it recovers this log itself",
    damaged=(
        "The controller cuts its log here when it starts, and fetches what follows from the other "
        "controllers; where there are none, restore the directory from a backup before. " + DROP_MALFORMED
    ),
    disordered=f"Restore the directory from a backup, or from another controller. {DROP_MALFORMED}",
    reindex="The controller rebuilds it when it starts",
    epochs="Restore the directory from a backup, or from another controller",
)


def advice_for(topic: str) -> Advice:
    """Kafka's controllers recover their own log, `__cluster_metadata`, from its start whenever they start
    (Kafka: KafkaRaftLog); no command of kafkalog changes it."""
    return _OF_THE_CONTROLLER if topic == METADATA_TOPIC else _OF_A_BROKER
