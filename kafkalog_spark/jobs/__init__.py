"""Programs for spark-submit: `spark-submit kafkalog_spark/jobs/compact.py LOGDIR`."""
