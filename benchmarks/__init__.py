"""Benchmarks of kafkalog and its peers on one machine. See README.md."""
