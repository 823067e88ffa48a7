"""Build what tests read: batches, segments, logs and log directories. One module builds one thing."""
