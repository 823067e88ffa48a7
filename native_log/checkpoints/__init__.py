"""Files that brokers keep next to segments (Kafka: org.apache.kafka.storage.internals.checkpoint).

| module | contents |
|---|---|
| names | names of topics and partition directories |
| meta_properties, partition_metadata | the identity of a log directory, and of a partition's topic |
| offset_checkpoints | files with recovery points, log start offsets, high watermarks, first dirty offsets |
| partition_checkpoints | one partition's entries in these files |
| leader_epochs | leader-epoch-checkpoint |
| lock | the lock of a log directory |
| write_session | a log directory that this process writes to: lock, clean-shutdown marker, checkpoints |
| write_intent | the state to restore if a write to several partitions is interrupted |
"""
