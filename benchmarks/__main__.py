"""`python -m benchmarks`; see README.md."""

from benchmarks.environment import enter

enter()

from benchmarks.cli import main  # noqa: E402 (only that environment has its dependencies)

main(prog_name="python -m benchmarks")
