"""What kafkalog costs beside its peers, measured side by side on one machine. See README.md."""
