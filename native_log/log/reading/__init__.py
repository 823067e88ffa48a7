"""Split and decode ranges of a log, past damage and beside a running broker."""
