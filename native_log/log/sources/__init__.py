"""Where logs come from: implementations of LogSource.

| module | contents |
|---|---|
| directory | one partition directory |
| one_copy | what sources with one copy of each record have in common |
| joined | several places that hold parts of one log, or the same records |
| offset_lookup | locate a range of offsets in the segments of a directory |
| relocation | locate records again after a broker has changed files |
| slice_check | check batches: which bytes are intact or damaged, which offsets are missing |
| read_repair | check slices where they are read, and replace lost offsets by those of other places |
"""
