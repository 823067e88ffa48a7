"""`python -m benchmarks`; see README.md."""

from benchmarks.environment import enter

enter()

from benchmarks.cli import main  # noqa: E402 (it needs what only that environment has)

main(prog_name="python -m benchmarks")
