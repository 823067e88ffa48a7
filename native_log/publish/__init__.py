"""Writing a log directory by many tasks at once: stage, then publish all of it in one step.

Tasks encode records into files of whole batches, in folders within the partitions' directories where brokers
and readers pass over them (`staging`). The one who commits gives the batches their offsets, 12 bytes each,
and moves the files into the logs (`commit`); until its last step readers see nothing of it. What was cut
short is taken back by whoever writes next.
"""
