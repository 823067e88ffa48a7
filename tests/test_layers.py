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
    *("errors", "arguments", "codecs", "cpu_quota", "java_numbers", "lazy", "system"),
    *("config", "prefetch", "progress", "workers", "watch"),
    *("effective_config", "policies", "outcomes", "sizes", "times"),
    *("storage", "records", "messages", "filters", "segment", "checkpoints", "log", "internal_topics"),
    *(
        "logdir",
        "retention",
        "compaction",
        "erasure",
        "salvaging",
        "restoring",
        "publish",
        "producer",
        "scanning",
    ),
    "reporting",
    *("settings_file", "cli"),
)
"""Modules and packages of native_log. Each may import those before it, never those after it."""

INNER_LAYERS = {
    "records": (
        *("results", "schema", "conditions", "text", "java_utf8", "range_checksums", "loading"),
        *("options", "compaction", "encoding", "partitioner"),
        *("reference", "control", "kernel", "kernel_writing"),
    ),
    "log": (
        "changing_files",
        *("offset_span", "log_files", "tail", "problems", "epoch_check", "ordinary_listing", "listing"),
        *("location_cache", "leader_history", "slices", "log_state", "missing_segments", "sliced_range"),
        *("producers", "outdated_segment"),
        "reading",
        *("gaps", "sources", "readable_log", "unbounded_range"),
        *("replicas", "tiers", "replacing", "recovery", "writing", "live"),
        *("partition_log", "largest_timestamp", "segment_check", "verification"),
    ),
    "logdir": (
        *("discovery", "wildcards", "remote_starts", "remote_join", "remote_logs", "remote_storage"),
        "options",
        *("directory_state", "moved_partitions", "cluster_metadata", "known_topics", "create"),
        *("catalog", "selection", "position", "scan", "listing_ahead", "live_discovery"),
        *("live_directory", "internal_tables", "broker_checks", "live_logdir", "followed_logdir"),
        *("partition_logs", "logdir"),
        "selected_partitions",
        *(
            "recovery_report",
            "unfinished_writes",
            "recovery",
            "reindexing",
            "maintenance",
            "verification",
            "comparison",
        ),
    ),
}
"""Modules and packages of these packages, as in LAYERS. The package's `__init__` is
above them all."""

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
    "native_log/cli/standard_streams.py": "the null device, in the place of closed standard streams",
    "native_log/cli/runner.py": "the null device, in the place of a closed standard output",
    "native_log/cpu_quota.py": "/proc and /sys, for the limits of a container",
    "native_log/publish/job.py": "/proc, to identify a process",
    "kafkalog_spark/write/plan.py": "/proc, to identify a process",
}
"""Modules outside of native_log.storage that open files, and which: never those of a log."""

OPENING_NAMES = {"open", "FileIO", "fdopen", "memory_map", "OSFile", "mmap", "fromfile", "touch", "mkstemp"}
OPENING_NAMES |= {f"{verb}_{what}" for verb in ("read", "write") for what in ("bytes", "text")}
OPENING_NAMES |= {"copyfile", "copy2", "copytree", "TemporaryFile", "NamedTemporaryFile", "mknod", "creat"}
NO_FILES = {"PartitionLog", "SegmentWriter", "type(self)", "directory", "partition"}
NO_FILES |= {"segment", "segment_slice", "last", "self", "self.segment", "source", "leader", "copy"}
NO_FILES |= {"storage", "joined", "local"}
"""Objects that have a method `open` but are not files: a storage, a log and its source, a segment, a slice,
a partition's directory of the connector."""


READING = (
    *("log/*.py", "log/producers/*.py", "log/reading/*.py", "log/sources/*.py", "log/replicas/*.py"),
    *("log/tiers/*.py", "log/tiers/layouts/*.py"),
    *("segment/*.py", "internal_topics/*.py", "logdir/discovery.py", "logdir/directory_state.py"),
    "logdir/moved_partitions.py",
    *("logdir/catalog.py", "logdir/remote_starts.py", "logdir/known_topics.py", "logdir/cluster_metadata.py"),
    *(
        "logdir/internal_tables.py",
        "logdir/logdir.py",
        "logdir/partition_logs.py",
        "logdir/remote_join.py",
        "logdir/remote_logs.py",
        "logdir/remote_storage.py",
    ),
)
"""Where logs are read. Files are found, opened and compared through a Storage here, so that logs can be
anywhere."""

CHANGES_FILES = {
    *("segment/writer.py", "segment/rebuild.py"),
    "log/producers/producer_states.py",
}
"""Modules among them that change logs, which are on local disks."""

LOCAL_ACCESS = {"exists", "is_dir", "is_file", "iterdir", "stat", "lstat", "glob", "rglob", "resolve"}
LOCAL_ACCESS |= {"listdir", "scandir", "isdir", "isfile", "realpath", "getsize", "DataFile", "read_file"}
LOCAL_ACCESS |= {"path_version"}
OF_A_STORAGE = {"folder", "self.folder", "entry", "by_name[names.log]", "state.folder", "log_dir.folder"}
OF_A_STORAGE |= {"self.storage", "copy.folder"}
"""What has methods of these names in a Storage."""


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


@cache
def inner_imports(package: str, root: Path = NATIVE_LOG) -> dict[str, set[str]]:
    """Return what each module of a package imports of the same package, by names such as "log.tail"."""

    def name(path: Path) -> str:
        return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")

    modules = {name(path): path for path in sorted((root / package).rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        imported = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                source = (node.module or "").removeprefix("native_log").lstrip(".")
                submodules = {f"{source}.{alias.name}".lstrip(".") for alias in node.names}
                found = submodules & modules.keys()
                imported |= found if len(found) == len(submodules) else {*found, source}
            elif isinstance(node, ast.Import):
                imported |= {alias.name.removeprefix("native_log.") for alias in node.names}
        graph[module] = imported & modules.keys() - {module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one module."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            new = graph[ahead.pop()] - seen
            seen |= new
            ahead += new
        return seen

    reached = {module: reachable(module) for module in graph}
    found: list[set[str]] = []
    for module in graph:
        circle = {other for other in reached[module] if module in reached[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def upward_imports(package: str) -> set[tuple[str, str]]:
    """Return the imports of a higher layer within a package: (importing, imported)."""
    rank = {f"{package}.{name}": index for index, name in enumerate(INNER_LAYERS[package])}
    rank[package] = len(rank)

    def layer(module: str) -> int:
        return rank[".".join(module.split(".")[:2])]

    return {
        (importing, imported)
        for importing, imports_of in inner_imports(package).items()
        for imported in imports_of
        if layer(imported) > layer(importing)
    }


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


@pytest.mark.parametrize("package", INNER_LAYERS)
def test_every_module_of_a_package_has_a_layer(package: str) -> None:
    layers = {module.split(".")[1] for module in inner_imports(package) if module != package}
    assert layers == {*INNER_LAYERS[package]}


def test_no_module_imports_a_higher_layer_of_its_package() -> None:
    upward = set[tuple[str, str]]().union(*(upward_imports(package) for package in INNER_LAYERS))
    assert not upward


def test_no_modules_import_each_other_in_a_circle() -> None:
    packages = [path.parent.name for path in NATIVE_LOG.glob("*/__init__.py")]
    assert {*INNER_LAYERS} <= {*packages}
    assert not [circle for package in packages for circle in circles(inner_imports(package))]


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


def local_accesses(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the calls that look at local files, with their lines."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in LOCAL_ACCESS - {"is_file"}:
                yield node.lineno, node.func.id
            elif isinstance(node.func, ast.Attribute) and node.func.attr in LOCAL_ACCESS:
                owner = ast.unparse(node.func.value)
                if owner not in OF_A_STORAGE:
                    yield node.lineno, f"{owner}.{node.func.attr}"


def test_logs_are_read_through_a_storage() -> None:
    paths = {path for pattern in READING for path in NATIVE_LOG.glob(pattern)}
    paths -= {NATIVE_LOG / module for module in CHANGES_FILES}
    assert len(paths) > 60
    found = {path.relative_to(NATIVE_LOG).as_posix(): [*local_accesses(tree(path))] for path in paths}
    assert {path: calls for path, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    "call", ["os.listdir(path)", "Path(path).exists()", "read_file(path)", "directory.iterdir()"]
)
def test_a_look_at_a_local_file_is_noticed(call: str) -> None:
    assert [*local_accesses(ast.parse(call))]


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


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"g"}, "g": {"f", "a"}}
    assert circles(graph) == [{"a", "b", "c"}, {"f", "g"}]


def test_imports_within_a_package_are_found_wherever_they_are(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for module in ("__init__", "tail", "listing"):
        (tmp_path / "log" / f"{module}.py").touch()
    (tmp_path / "log" / "state.py").write_text(
        "if TYPE_CHECKING:\n    from native_log.log import tail\n    import native_log.records\n"
        "def work():\n    import native_log.log.listing\n    from native_log.log import LogRange\n"
    )
    assert inner_imports("log", tmp_path)["log.state"] == {"log.tail", "log.listing", "log"}
