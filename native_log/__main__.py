"""Run the command `kafkalog` as `python -m native_log`."""

from native_log.cli import main

main()
