"""Records of Kafka's internal topics: schemas, how they are read, and how kafka-dump-log prints them."""
