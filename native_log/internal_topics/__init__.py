"""Kafka's internal topics as tables.

| module | contents |
|---|---|
| records | read the records of an internal topic; records that cannot be decoded |
| transactions | whether a record's transaction was committed |
| group | what the records of __consumer_offsets say about one group |
| offset_expiration | when committed offsets expire |
| consumer_offsets, lag | the offsets that groups committed, and how far behind they are |
| commit_records, commit_columns | decode the records of commits, one by one or many at once |
| groups | groups and their members |
| share_groups | what share groups have consumed |
| transaction_state | transactional ids |
| cluster_metadata, cluster_image | the metadata of the cluster |
| metadata_log | read the records of the cluster metadata |
| schemas, tables | the columns of the tables, and the tables of one partition |

Modules named after a table contain its schema and the decoding of records into rows, without I/O. The records
come from `records`.
"""

from __future__ import annotations
