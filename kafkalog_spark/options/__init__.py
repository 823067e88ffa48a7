"""Options of reads and writes: parsing, validation, and the values they become."""
