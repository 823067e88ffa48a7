"""The layers of the code: which package may import which, and which may open files."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import kafkalog_spark
import native_log

if TYPE_CHECKING:
    from collections.abc import Iterator

NATIVE_LOG = Path(native_log.__file__).parent
KAFKALOG_SPARK = Path(kafkalog_spark.__file__).parent

LAYERS = (
    *("errors", "arguments", "codecs", "system", "config", "prefetch", "progress", "watch"),
    *("effective_config", "policies", "outcomes", "sizes", "times"),
    *("storage", "records", "segment", "checkpoints", "log", "messages", "internal_topics"),
    *("logdir", "retention", "compaction", "erasure", "salvaging", "publish", "producer"),
    "reporting",
    *("settings_file", "cli"),
)
"""Modules and packages of native_log. Each may import those before it, never those after it."""

TOP = ("__init__", "__main__")
"""Modules that may import every layer: the public names, and `python -m native_log`."""

IMPLEMENTATIONS = (
    "native_log._kernel",
    *(f"native_log.records.{module}" for module in ("kernel", "kernel_writing", "reference")),
)
"""What `native_log.records` chooses from; its callers do not know which implementation they use."""

USES_THE_REFERENCE = {
    "native_log/cli/dump_log/decoded_batches.py": "prints fields of legacy batches that no column has",
    "native_log/cli/dump_log/log_file.py": "has the sizes of headers by which kafka-dump-log decides",
}

OPENS_FILES = {
    "native_log/cli/runner.py": "the null device, in the place of a closed standard output",
    "native_log/publish/job.py": "/proc, to identify a process",
    "kafkalog_spark/write/plan.py": "/proc, to identify a process",
}
"""Modules outside of native_log.storage that open files, and which: never those of a log."""

OPENING_NAMES = {"open", "FileIO", "fdopen", "memory_map", "OSFile", "mmap", "fromfile", "touch", "mkstemp"}
OPENING_NAMES |= {f"{verb}_{what}" for verb in ("read", "write") for what in ("bytes", "text")}
OPENING_NAMES |= {"copyfile", "copy2", "copytree", "TemporaryFile", "NamedTemporaryFile", "mknod", "creat"}
NO_FILES = {"PartitionLog", "LocalLog", "SegmentWriter", "type(self)", "directory", "partition"}
"""What has a method `open` but is no file: a log, a segment, a partition's directory of the connector."""


class Import(NamedTuple):
    source: Path
    line: int
    module: str

    @property
    def layers(self) -> tuple[str, str]:
        """The layers of native_log that import and are imported; "" for the package itself."""
        imported = self.module.removeprefix("native_log").lstrip(".").partition(".")[0]
        return self.source.relative_to(NATIVE_LOG).parts[0].removesuffix(".py"), imported

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.module}"


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources(package: Path) -> list[Path]:
    modules = sorted(package.rglob("*.py"))
    assert len(modules) > 20
    return modules


def imports(package: Path) -> Iterator[Import]:
    """Every import in the package: also within functions and for type checkers only."""
    for path in sources(package):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: expected an absolute import"
                module = node.module or ""
                if module == "native_log":
                    for alias in node.names:
                        yield Import(path, node.lineno, f"native_log.{alias.name}")
                else:
                    yield Import(path, node.lineno, module)
            elif isinstance(node, ast.Import):
                yield from (Import(path, node.lineno, alias.name) for alias in node.names)


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def opening_calls(source: ast.Module) -> Iterator[tuple[int, str]]:
    """Calls that may open a file: (line, what is called)."""
    for node in ast.walk(source):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in OPENING_NAMES:
                yield node.lineno, node.func.id
            elif isinstance(node.func, ast.Attribute) and node.func.attr in OPENING_NAMES:
                owner = ast.unparse(node.func.value)
                if owner not in NO_FILES and owner.rpartition(".")[2] not in NO_FILES:
                    yield node.lineno, f"{owner}.{node.func.attr}"


def test_every_module_has_a_layer() -> None:
    layers = {path.relative_to(NATIVE_LOG).parts[0].removesuffix(".py") for path in sources(NATIVE_LOG)}
    assert layers == {*LAYERS, *TOP}


def test_no_layer_imports_a_higher_one() -> None:
    rank = {name: index for index, name in enumerate(LAYERS)}
    rank |= {"": -1, "_kernel": rank["records"]}  # "": for the version, which is the package's
    upward = []
    for each in imports(NATIVE_LOG):
        if within(each.module, "native_log"):
            importing, imported = each.layers
            if importing not in TOP and rank.get(imported, len(rank)) > rank[importing]:
                upward.append(str(each))
    assert not upward


def test_native_log_needs_no_spark() -> None:
    assert not [str(each) for each in imports(NATIVE_LOG) if within(each.module, "pyspark", "kafkalog_spark")]


def test_only_records_knows_its_implementations() -> None:
    users = [
        str(each)
        for each in [*imports(NATIVE_LOG), *imports(KAFKALOG_SPARK)]
        if within(each.module, *IMPLEMENTATIONS)
        and NATIVE_LOG / "records" not in each.source.parents
        and each.source.relative_to(NATIVE_LOG.parent).as_posix() not in USES_THE_REFERENCE
    ]
    assert not users


def test_the_connector_does_not_use_the_command_line() -> None:
    assert not [str(each) for each in imports(KAFKALOG_SPARK) if within(each.module, "native_log.cli")]


def test_only_storage_opens_files() -> None:
    opening = {
        path.relative_to(NATIVE_LOG.parent).as_posix(): calls
        for path in [*sources(NATIVE_LOG), *sources(KAFKALOG_SPARK)]
        if NATIVE_LOG / "storage" not in path.parents and (calls := [*opening_calls(tree(path))])
    }
    assert {path: calls for path, calls in opening.items() if path not in OPENS_FILES} == {}
    assert opening.keys() == OPENS_FILES.keys(), "expected no exception that is not needed"


@pytest.mark.parametrize(
    "call",
    [
        'open(path, "rb")',
        "os.open(path, os.O_RDONLY)",
        "Path(directory, name).open()",
        "path.read_bytes()",
        "(folder / name).write_text(text)",
        "io.FileIO(path)",
        "pa.memory_map(path)",
        "mmap.mmap(descriptor, 0)",
        "shutil.copyfile(path, other)",
    ],
)
def test_a_call_that_opens_a_file_is_noticed(call: str) -> None:
    source = ast.parse(f"import os\n\ndef load():\n    return {call}\n")
    assert [line for line, _ in opening_calls(source)] == [4]


@pytest.mark.parametrize("call", ["PartitionLog.open(path)", "work.directory.open()", "opened(path)"])
def test_opening_a_log_is_not_opening_a_file(call: str) -> None:
    assert not [*opening_calls(ast.parse(call))]


def test_imports_within_functions_count(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.py").touch()
    text = "def work():\n    from native_log.cli import app\n    from native_log import LogDir\n"
    (tmp_path / "module.py").write_text(text)
    assert [each.module for each in imports(tmp_path)] == ["native_log.cli", "native_log.LogDir"]
