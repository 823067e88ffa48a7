"""`kafkalog dump-log`: print files line by line as kafka-dump-log 4.1 does (Kafka: DumpLogSegments).

`dump` prints any number of files; `log_file` and `index_files` each know some kinds of them.
"""
