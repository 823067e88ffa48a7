"""Several copies of one log, read as one log.

| module | contents |
|---|---|
| history | the leader epochs of a copy, and the offset up to which two copies have the same records |
| plan | which copy is read for which offsets (pure) |
| state | read what a copy contains, without reading its records |
| merged_source | a merged log, as a value that can be pickled |
| merge | read the states of copies, plan, and report what was decided |
| slice_check | check batches: which bytes are intact or damaged, which offsets are missing |
| read_repair | check a range where it is read, and replace lost offsets by those of other copies |
| merged_log | MergedLog: the merged log as a PartitionLog |
| copies | inspect a copy: check all its batches, and note damaged ranges and missing offsets |
| comparison | compare the batches of two copies |
"""
