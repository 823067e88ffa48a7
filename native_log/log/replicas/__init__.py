"""Several copies of one log, read as one log.

| module | contents |
|---|---|
| history | the leader epochs of a copy, and the offset up to which two copies have the same records |
| plan | which copy is read for which offsets (pure) |
| state | read what a copy contains, without reading its records |
| merge | read the states of copies, plan, report what was decided, and join the copies |
| copies | inspect a copy: check all its batches, and note damaged ranges and missing offsets |
| comparison | compare the batches of two copies |
"""
