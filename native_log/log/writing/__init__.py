"""Append records or encoded batches to a log.

| module | contents |
|---|---|
| writable_log | a log opened for appending: lock its directory, check its end |
| append_context | the settings and state that appended batches must comply with |
| record_encoding | encode records as batches |
| encoded_batches | prepare batches that are encoded already |
| validation, sequences | checks of records, batches and producer sequences; they are pure |
| appender | write batches to the active segment, and roll it |
| roll | decide when to roll a segment; it is pure |
"""
