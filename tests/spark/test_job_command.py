"""The command kafkalog-spark, without Spark."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from kafkalog_spark.jobs.main import JOBS, main


def run(*arguments: str) -> int | str | None:
    """Run the command. Return the code with which it exits; None if it just ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["kafkalog-spark", *arguments])
        try:
            main()
        except SystemExit as end:
            return end.code
    return None


@pytest.mark.parametrize("job", JOBS)
def test_the_path_is_that_of_the_program(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("path", job) is None
    program = Path(capsys.readouterr().out.rstrip("\n"))
    assert "summarize" in runpy.run_path(str(program))
    assert program.name == f"{job}.py"


@pytest.mark.filterwarnings("ignore:.*found in sys.modules.*:RuntimeWarning")
@pytest.mark.parametrize("job", JOBS)
def test_a_job_parses_its_own_arguments(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(job, "--help") == 0
    assert f"usage: {job} [-h] [--topic TOPIC]" in capsys.readouterr().out
    assert run(job, "/logs", "--conf", "no-equals-sign") == 2
    assert f"{job}: error" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [(), ("path",), ("path", "erase"), ("path", "compact", "x"), ("erase",)]
)
def test_a_wrong_command_line(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert "usage: kafkalog-spark" in capsys.readouterr().err
