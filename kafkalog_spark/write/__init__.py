"""The sinks: `df.write.format("kafkalog")` and `df.writeStream.format("kafkalog")`."""
