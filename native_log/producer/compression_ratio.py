"""Estimate how well the batches of a topic can be compressed (Kafka: CompressionRatioEstimator)."""

from __future__ import annotations

_IMPROVING_STEP = 0.005
_DETERIORATING_STEP = 0.05


def updated_ratio(estimated: float, observed: float) -> float:
    """Return the next estimate of compressed size divided by uncompressed size.

    A batch that compresses worse than expected raises the estimate at once, a better one lowers it slowly.
    """
    if observed > estimated:
        return max(estimated + _DETERIORATING_STEP, observed)
    return max(estimated - _IMPROVING_STEP, observed)


class CompressionRatios:
    """The estimates of all topics. Each begins at 1."""

    def __init__(self) -> None:
        self._by_topic: dict[str, float] = {}

    def get(self, topic: str) -> float:
        """Return the estimate of a topic."""
        return self._by_topic.get(topic, 1.0)

    def observe(self, topic: str, observed: float) -> None:
        """Update the estimate with the ratio of a batch."""
        self._by_topic[topic] = updated_ratio(self.get(topic), observed)

    def reset(self, topic: str, ratio: float) -> None:
        """Replace the estimate."""
        self._by_topic[topic] = ratio
