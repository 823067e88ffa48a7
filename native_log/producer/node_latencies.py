"""Find log directories that accept no requests (Kafka: RecordAccumulator.NodeLatencyStats, KIP-794)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Latency:
    """When a node last had ready batches, and when it last accepted some."""

    ready_ms: int
    drain_ms: int


class NodeLatencies:
    """How long each node has not accepted the batches that were ready.

    Args:
        timeout_ms: partitioner.availability.timeout.ms; 0: all nodes are available.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._latencies: dict[str, _Latency] = {}

    def note(self, node: str, now_ms: int, *, can_drain: bool) -> None:
        """Note that a node has ready batches, and whether it accepts them."""
        if self._timeout_ms <= 0:
            return
        latency = self._latencies.setdefault(node, _Latency(now_ms, now_ms))
        latency.ready_ms = now_ms
        if can_drain:
            latency.drain_ms = now_ms

    def is_unavailable(self, node: str) -> bool:
        """Return whether the node had ready batches for the timeout and accepted none."""
        latency = self._latencies.get(node)
        return latency is not None and latency.ready_ms - latency.drain_ms > self._timeout_ms
