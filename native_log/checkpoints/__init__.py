"""Files that brokers keep next to segments (Kafka: org.apache.kafka.storage.internals.checkpoint).

| module | what |
|---|---|
| names | directory names of topic partitions |
| meta_properties, partition_metadata | the identity of a log directory and of a partition's topic |
| offset_checkpoints | recovery points, log start offsets, high watermarks, cleaned offsets |
| partition_checkpoints | the entries of one partition |
| leader_epochs | leader-epoch-checkpoint |
| lock | the lock of a log directory |
| write_session, write_intent | a log directory held for writing; what to undo if the process dies |
"""
