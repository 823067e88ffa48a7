"""Programs for spark-submit: `spark-submit "$(kafkalog-spark path compact)" LOGDIR`."""
