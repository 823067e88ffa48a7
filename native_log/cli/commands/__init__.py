"""The commands of `kafkalog`, one a module: options, help, and a call of what does the work.

What they need beyond click is imported when they run: `--help` and completion load neither Arrow nor NumPy.
"""
