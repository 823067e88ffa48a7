"""Several copies of one log, read as one log.

| module | contents |
|---|---|
| history | the leader epochs of a copy, and the offset up to which two copies have the same records |
| plan | which copy is read for which offsets (pure) |
| state | read what a copy contains, without reading its records |
| merged_source | a merged log, as a value that can be pickled |
| merge | read the states of copies, plan, and report what was decided |
| read_repair | check the batches of a range where they are read, and replace damaged ones |
| merged_log | MergedLog: the merged log as a PartitionLog |
| copies | inspect a copy: read all its batches, and note damaged ranges and gaps |
| comparison | compare the batches of two copies |
"""
