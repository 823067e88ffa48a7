"""Records of Kafka's internal topics: schemas, decoding, and text as kafka-dump-log prints it."""
