"""Kafka's own messages, as its brokers keep them in internal topics."""
