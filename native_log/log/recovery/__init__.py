"""What a crash left of a log, mended (Kafka: LogLoader)."""
