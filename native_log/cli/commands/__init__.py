"""The commands of `kafkalog`, one in each module: options, help, and a call of the package.

Commands import everything but click when they run, so that `--help` and completion do not load Arrow.
"""
