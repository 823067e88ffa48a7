"""Tiered storage (KIP-405): the segments of a log that a broker has copied to remote storage.

| Module | Content |
|---|---|
| layouts | the names of objects in remote storage: pure |
| remote_segment | what is known of one remote segment |
| lineage | which remote segments make up a log, for which offsets: pure |
| by_name | what names alone tell of segments: pure |
| tier, aiven_tier, detection | find partitions and segments in remote storage |
| aiven_storage | restores the files of segments from chunks |
| cut_storage | makes the missing end of an object count as damage |
| segment_source | the log in one remote segment |
| join | a log of remote segments and a local directory |
"""
