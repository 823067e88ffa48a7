"""Shell completion, and the modules that it loads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from native_log.cli.app import COMMANDS, kafkalog
from tests.builders.golden import GOLDEN

DATA = str(GOLDEN / "kafka-4.1/whole-broker/data")


def completed(*arguments: str, incomplete: str = "") -> list[tuple[str, str]]:
    """Return kind and value of each proposal."""
    shell = ShellComplete(kafkalog, {}, "kafkalog", "_KAFKALOG_COMPLETE")
    return [(item.type, item.value) for item in shell.get_completions(list(arguments), incomplete)]


def values(*arguments: str, incomplete: str = "") -> list[str]:
    return [value for _, value in completed(*arguments, incomplete=incomplete)]


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "dump-log"])
def test_the_shell_completes_paths(command: str) -> None:
    assert completed(command, incomplete="/va") == [("dir", "/va")]
    assert completed(command, "/var/a", incomplete="") == [("dir", "")]


def test_dump_log_takes_files() -> None:
    assert completed("dump-log", incomplete="/va") == [("file", "/va")]


@pytest.mark.parametrize(
    "command", ["cat", "ls", "verify", "recover", "reindex", "retain", "compact", "erase"]
)
def test_topics_are_those_of_the_directory_given(command: str) -> None:
    assert values(command, DATA, "-t", incomplete="e") == ["events"]
    assert values(command, DATA, "--exclude-topic", incomplete="__t") == ["__transaction_state"]
    assert values(command, DATA, "-t", "events", "-t", incomplete="s") == ["state"]
    assert values(command, "-t", incomplete="e") == []
    assert values(command, "/nowhere/at-all", "-t", incomplete="e") == []


def test_produce_completes_one_topic_and_input_files() -> None:
    assert values("produce", DATA, "-t", incomplete="e") == ["events"]
    assert completed("produce", DATA, "-i", incomplete="/va") == [("file", "/va")]


def test_partitions_are_those_of_the_topics_given() -> None:
    assert values("cat", DATA, "-t", "events", "-p") == ["0", "1", "2"]
    assert values("cat", DATA, "-t", "state", "-p") == ["0"]
    assert values("cat", DATA, "-t", "events", "-p", incomplete="0,") == ["0,0", "0,1", "0,2"]
    assert values("cat", f"{DATA}/events-1", "-p") == ["1"]


@pytest.mark.parametrize(
    "words",
    [
        None,
        "kafkalog ",
        "kafkalog cat --",
        f"kafkalog cat {DATA} -t ",
        f"kafkalog cat {DATA} -p ",
    ],
)
def test_help_and_completion_load_neither_arrow_nor_numpy(words: str | None) -> None:
    code = (
        "import sys, atexit\n"
        "loaded = lambda: print(sorted({'pyarrow', 'numpy', 'rich'} & sys.modules.keys()), file=sys.stderr)\n"
        "atexit.register(loaded)\n"
        "from native_log.cli import main\n"
        "sys.argv = ['kafkalog', *sys.argv[1:]]\n"
        "main()"
    )
    environment = dict(os.environ)
    if words is not None:
        count = len(words.split(" ")) - 1
        environment |= {"_KAFKALOG_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    arguments = ["--help"] if words is None else []
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout
    assert done.stderr == "[]\n"
