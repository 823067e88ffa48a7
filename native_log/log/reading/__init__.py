"""What is read of a log: ranges of offsets, found, cut, and decoded over damage and under a live broker."""
