"""`python -m native_log`: the command `kafkalog`."""

from native_log.cli import main

main()
