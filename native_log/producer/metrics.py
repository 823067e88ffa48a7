"""Count what a producer does, with the names of Kafka's metrics (Kafka: SenderMetricsRegistry)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Sensor:
    """Numbers whose average and maximum are reported."""

    count: int = 0
    total: float = 0.0
    maximum: float = 0.0

    def record(self, *values: float) -> None:
        if values:
            self.count += len(values)
            self.total += sum(values)
            self.maximum = max(self.maximum, *values)

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0


class ProducerMetrics:
    """What a producer has done. The sender writes, and any thread may read."""

    def __init__(self) -> None:
        self.records_sent = 0
        self.records_failed = 0
        self.records_retried = 0
        self.batches_split = 0
        self.batch_size = _Sensor()
        self.queue_time = _Sensor()
        self.compression_rate = _Sensor()
        self.records_per_request = _Sensor()
        self.request_latency = _Sensor()
        self.flush_ms = 0

    def snapshot(self) -> dict[str, float]:
        """Return all metrics by Kafka's names. Times are in ms, sizes in bytes."""
        return {
            "record-send-total": self.records_sent,
            "record-error-total": self.records_failed,
            "record-retry-total": self.records_retried,
            "batch-split-total": self.batches_split,
            "batch-size-avg": self.batch_size.average,
            "batch-size-max": self.batch_size.maximum,
            "record-queue-time-avg": self.queue_time.average,
            "record-queue-time-max": self.queue_time.maximum,
            "compression-rate-avg": self.compression_rate.average or 1.0,
            "records-per-request-avg": self.records_per_request.average,
            "request-total": self.records_per_request.count,
            "request-latency-avg": self.request_latency.average,
            "request-latency-max": self.request_latency.maximum,
            "flush-time-ms-total": self.flush_ms,
        }
