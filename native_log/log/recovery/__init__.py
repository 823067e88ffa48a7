"""Recover a log after an unclean shutdown (Kafka: LogLoader).

| module | contents |
|---|---|
| log_recovery | check segments, truncate the log, rebuild indexes, producer state and leader epochs |
| truncation | count and copy the records that a recovery removes |
"""
