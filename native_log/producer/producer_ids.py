"""Producer ids without a broker that hands them out (Kafka: ProducerIdManager)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST = 2**62
_system_random = random.SystemRandom()


def random_producer_id(draw: Callable[[int], int] = _system_random.randrange) -> int:
    """Return a new producer id at random, from 2^62 to 2^63 - 1.

    A controller hands out ids from 0 on, in blocks of 1000. So a random id in the upper half is never one of
    a client of the broker that loads the log directory later. Two such ids are equal with a probability of
    2^-62. Nothing is stored, and a log forgets the id after producer.id.expiration.ms.

    Args:
        draw: returns a random number from 0 to its argument, exclusive.
    """
    return _FIRST + draw(_FIRST)
