"""Several copies of one log, read as one log.

| module | contents |
|---|---|
| history | the leader epochs of a copy, and the offset up to which two copies have the same records |
| plan | which copy is read for which offsets (pure) |
| copies | inspect a copy: its leader epochs, and its damaged ranges |
| merged_source | the byte ranges of a merged log, as a value that can be pickled |
| merge | inspect copies, plan, and report what was decided |
| merged_log | MergedLog: the merged log as a PartitionLog |
"""
