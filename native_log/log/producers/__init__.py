"""Producers' state and transactions, from batches' headers and snapshots (Kafka: ProducerStateManager)."""
