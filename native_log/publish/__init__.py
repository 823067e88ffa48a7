"""Write a log directory from many tasks: tasks stage files, one commit makes all of them visible at once.

Tasks encode records into files of whole batches. The files lie in staging folders inside the partition
directories, where brokers and readers ignore them (`staging`). The commit gives the batches their offsets,
12 bytes each, and moves the files into the logs (`commit`). Readers see no change before the last step. If a
commit is interrupted, the next writer undoes it.
"""
