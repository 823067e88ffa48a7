"""Logs that are kept up to date while a broker writes to them, without being opened again.

| module | contents |
|---|---|
| live_log | LiveLog: one partition directory that is refreshed in place |
| live_merged_log | LiveMergedLog: several copies, merged again when one of them changes |
| live_files | LiveFiles: notice changed files, and read only what is new |
| divergence | find the offset from which a log was truncated and written again |
| tail_marks | remember the last batches that were seen, to notice that a file was rewritten |
| stable_offset | the last stable offset, from the batch headers that are new |
| log_follower | LogFollower: an iterator of record batches as they arrive |
| partition_follower | a position in a live log: what is new, and what was lost |
"""
