"""What is appended to a log: records or batches, admitted, encoded, written, rolled."""
