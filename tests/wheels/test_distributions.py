"""The wheel and the sdist: what they contain, and that they work where nothing else is installed."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from tests.spark_home import create_spark_home

from .distributions import (
    DIST,
    NO_CARGO,
    PACKAGES,
    ROOT,
    Builder,
    Environment,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Submit = Callable[..., tuple[int, list[list[str]], str]]

LOGS = ROOT / "examples" / "kafka-logs"
READ = """
import sys, native_log, native_log.records as records
batches = native_log.LogDir(sys.argv[1]).partition("payments", 0).read(columns=["offset", "value"])
print(records.IMPLEMENTATION, native_log.__file__, batches.read_all().num_rows)
"""
COUNT = """
import json, sys
from pyspark.sql import SparkSession

def where(batches):
    import native_log, pyarrow as pa
    from native_log.records import IMPLEMENTATION
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"kernel": [IMPLEMENTATION], "file": [native_log.__file__]})

spark = SparkSession.builder.getOrCreate()
if "register" in sys.argv:
    from kafkalog_spark import KafkaLogDataSource
    spark.dataSource.register(KafkaLogDataSource)
rows = spark.read.format("kafkalog").option("subscribe", "payments").load(sys.argv[1]).count()
places = spark.range(0, 2, 1, 2).mapInArrow(where, "kernel string, file string").collect()
print("result", json.dumps([rows, sorted({tuple(place) for place in places})]))
spark.stop()
"""


PACKAGED = ("*.py", "*.pyi", "py.typed", "*.html", "*.css")
"""The files of the packages that wheels and sdists contain."""
LICENSES = ("LICENSE", "kernel/THIRD_PARTY.txt")

only_with_make_wheel = pytest.mark.skipif(DIST is None, reason="`make wheel` runs it")


def sources(*patterns: str, below: tuple[str, ...] = PACKAGES) -> set[str]:
    files = (file for name in below for pattern in patterns for file in (ROOT / name).rglob(pattern))
    return {str(file.relative_to(ROOT)) for file in files}


def payments() -> int:
    return LogDir(LOGS).partition("payments", 0).read().read_all().num_rows


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("builder"))


@pytest.fixture(scope="module")
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if DIST is None:
        builder: Builder = request.getfixturevalue("builder")
        return builder.build_wheel(tmp_path_factory.mktemp("wheel"), KAFKALOG_REQUIRE_KERNEL="1")
    wheel = next((ROOT / DIST).glob(f"*_{platform.machine()}.whl"), None)
    return wheel or pytest.skip("there is no wheel for this machine")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel, its dependencies, and pandas. A cluster brings pyspark."""
    return Environment.create(tmp_path_factory.mktemp("installed") / "env", str(wheel), "pandas>=2.2,<3")


@pytest.fixture(scope="module")
def sdist(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if DIST is None:
        return builder.build_sdist(tmp_path_factory.mktemp("sdist"))
    return next((ROOT / DIST).glob("*.tar.gz"))


def test_the_wheel_contains_the_packages_and_the_kernel(wheel: Path) -> None:
    assert re.fullmatch(r"kafkalog_spark-[\d.]+-cp311-abi3-\w+\.whl", wheel.name)
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == sources(*PACKAGED) | {"native_log/_kernel.abi3.so"}


def test_the_wheel_contains_the_licenses(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        licenses = {
            name.partition(".dist-info/licenses/")[2]: archive.read(name).decode()
            for name in archive.namelist()
            if ".dist-info/licenses/" in name
        }
    assert licenses == {name: (ROOT / name).read_text() for name in LICENSES}


def test_the_wheel_works_alone(installed: Environment, tmp_path: Path) -> None:
    command = (str(installed.python), "-c", READ, str(LOGS))
    kernel, file, rows = installed.run(*command, cwd=tmp_path, KAFKALOG_KERNEL="required").stdout.split()
    assert (kernel, int(rows)) == ("kernel", payments())
    assert Path(file).is_relative_to(installed.path)


def test_the_jobs_are_found(installed: Environment, tmp_path: Path) -> None:
    command = (str(installed.path / "bin" / "kafkalog-spark"), "path", "compact")
    program = Path(installed.run(*command, cwd=tmp_path).stdout.rstrip("\n"))
    assert program.is_file()
    assert program.is_relative_to(installed.path)


def test_the_sdist_contains_all_sources(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    files = {str(file.relative_to(unpacked)) for file in unpacked.rglob("*") if file.is_file()}
    crates = tuple(f"kernel/{crate}" for crate in ("format", "arrow", "python"))
    assert {*LICENSES, *sources(*PACKAGED), *sources("*.rs", "Cargo.toml", below=crates)} <= files


def test_the_sdist_installs_without_cargo(builder: Builder, sdist: Path, tmp_path: Path) -> None:
    wheel = builder.build_wheel(tmp_path, sdist, CARGO=NO_CARGO, KAFKALOG_REQUIRE_KERNEL="")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert sources("*.py") <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.skipif(DIST is None, reason="only `make wheel` builds wheels for an old glibc")
def test_wheels_work_with_an_old_glibc() -> None:
    wheels = list((ROOT / str(DIST)).glob("*.whl"))
    assert wheels
    for wheel in wheels:
        command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert f'"{wheel.stem.rpartition("-")[2]}"' in shown.partition("following platform tag:")[2]


@pytest.fixture
def submit(tmp_path: Path) -> Submit:
    """Run COUNT with spark-submit on a cluster of one executor, which is a process of its own.

    Returns the number of records, where the workers found native_log, and what all processes logged.
    """
    home = tmp_path / "spark"
    home.mkdir()  # executors write to the directory `work` of Spark's home
    create_spark_home(home)
    job = tmp_path / "job.py"
    job.write_text(COUNT)

    def run(
        environment: Environment, *options: str, argument: str = "", **variables: str
    ) -> tuple[int, list[list[str]], str]:
        pythons = {f"PYSPARK_{name}": str(environment.python) for name in ("PYTHON", "DRIVER_PYTHON")}
        finished = environment.run(
            *(str(home / "bin" / "spark-submit"), "--master", "local-cluster[1,2,1024]"),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.master.ui.enabled=false"),
            *("--conf", "spark.worker.ui.enabled=false", "--conf", "spark.log.level=WARN"),
            *("--conf", "spark.sql.codegen.wholeStage=false", "--conf", "spark.sql.shuffle.partitions=2"),
            *("--conf", f"spark.executor.extraJavaOptions={os.environ['SPARK_SUBMIT_OPTS']}"),
            *(*options, str(job), str(LOGS), argument),
            cwd=tmp_path,
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_LOCAL_HOSTNAME="127.0.0.1",
            SPARK_HOME=str(home),
            **pythons | variables,
        )
        rows, places = json.loads(finished.stdout.partition("result ")[2])
        logged = [file.read_text() for file in (home / "work").rglob("stderr")]
        return rows, places, "".join([finished.stderr, *logged])

    return run


@pytest.mark.spark
def test_a_cluster_with_the_wheel_installed(installed: Environment, submit: Submit) -> None:
    rows, places, _ = submit(installed)
    ((kernel, file),) = places
    assert (rows, kernel) == (payments(), "kernel")
    assert Path(file).is_relative_to(installed.path)


def without_tests(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out the tests and headers of pandas, numpy and pyarrow, thousands of files."""
    return None if {"tests", "include"} & set(entry.name.split("/")) else entry


@pytest.mark.spark
@only_with_make_wheel
def test_archives(installed: Environment, tmp_path: Path, submit: Submit) -> None:
    """The executors' Python is in the archive, and finds everything else there."""
    (tmp_path / "env").symlink_to(installed.path)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz", compresslevel=0) as archive:
        archive.add(installed.path, ".", filter=without_tests)
    pythons = {"PYSPARK_DRIVER_PYTHON": "env/bin/python", "PYSPARK_PYTHON": "./env/bin/python"}
    rows, places, _ = submit(installed, "--archives", "env.tar.gz#env", **pythons)
    ((kernel, file),) = places
    assert (rows, kernel) == (payments(), "kernel")
    assert Path(file).is_relative_to(tmp_path / "spark" / "work")


@pytest.mark.spark
def test_py_files_with_a_zip(installed: Environment, wheel: Path, tmp_path: Path, submit: Submit) -> None:
    """Spark does not discover the format there. Once registered, it runs in plain Python, and says so."""
    archive = tmp_path / "kafkalog.zip"
    archive.write_bytes(wheel.read_bytes())
    environment = installed.copy_without_kafkalog(tmp_path / "env")
    rows, places, logged = submit(environment, "--py-files", str(archive), argument="register")
    assert (rows, places) == (payments(), [["reference", "./kafkalog.zip/native_log/__init__.py"]])
    assert "native_log was imported from an archive (./kafkalog.zip/native_log)" in logged


@pytest.mark.spark
@only_with_make_wheel
def test_py_files_with_a_wheel(installed: Environment, wheel: Path, tmp_path: Path, submit: Submit) -> None:
    """Spark puts .zip files on the path of its Python workers, but no wheels."""
    environment = installed.copy_without_kafkalog(tmp_path / "env")
    with pytest.raises(AssertionError, match="ModuleNotFoundError: No module named 'kafkalog_spark'"):
        submit(environment, "--py-files", str(wheel), argument="register")
