"""Metadata views: the batches, segments, partitions and transactions of log directories."""
