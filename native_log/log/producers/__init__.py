"""Producer state and transactions, from batch headers and snapshots (Kafka: ProducerStateManager)."""
