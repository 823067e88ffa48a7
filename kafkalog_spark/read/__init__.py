"""Reading: batch queries."""
