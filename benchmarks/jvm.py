"""Run Java from Python: fetch jars with Maven, compile classes, and send commands to a JVM."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paths import HERE, cache

KAFKA = HERE / "maven" / "kafka.xml"
OLDER_KAFKA = HERE / "maven" / "kafka-3.9.xml"
NEWER_KAFKA = HERE / "maven" / "kafka-4.4.xml"
TIERED_KAFKA = HERE / "maven" / "kafka-tiered.xml"
SPARK_KAFKA_SOURCE = HERE / "maven" / "spark.xml"
# Logs go to standard error: standard output has the results of a program.
LOGGING = f"-Dlog4j2.configurationFile={HERE / 'java' / 'log4j2.properties'}"
# The JVM's own warnings too, such as that it cannot start a thread. By default they go to standard output.
VM_LOGGING = ("-XX:+DisplayVMOutputToStderr", "-Xlog:disable", "-Xlog:all=warning:stderr")
# With its version, because the default depends on the version of Maven.
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class JavaError(Exception):
    """Java or Maven is missing, or a Java program failed; the message has the end of its output."""


def java_tool(name: str) -> str:
    """Return the path of java or javac, from JAVA_HOME if it is set, otherwise from PATH."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=str(Path(home, "bin"))) if home else shutil.which(name)
    if path is None:
        raise JavaError(f"expected {name} {'in JAVA_HOME ' + home if home else 'on PATH'}, found none")
    return path


def unavailable_reason() -> str | None:
    """Return why no broker can run on this machine, in one line, or None if one can."""
    try:
        command = [java_tool("java"), "-version"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        java_tool("javac")
    except (JavaError, OSError, subprocess.CalledProcessError) as error:
        return str(error)
    version = re.search(r'version "(\d+)', output)
    if version is None or int(version[1]) < 17:
        return f"expected Java 17 or newer, found {output.splitlines()[0] if output else 'none'}"
    if shutil.which("mvn") is None and not is_fetched(KAFKA):
        return "expected mvn (Maven) on PATH, found none; it fetches the broker"
    return None


def jars(pom: Path) -> Path:
    """Return the directory with the jars that `pom` names and their dependencies.

    Maven fetches them once for each version of the file.
    """
    folder = _folder(pom)
    if is_fetched(pom):
        return folder
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    command = ["mvn", "-q", "-B", "-f", str(pom), COPY, *options]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise JavaError(f"{' '.join(command)}\n{_tail(process.stdout + process.stderr)}")
    try:
        partial.rename(folder)
    except OSError:  # another process has fetched the same jars meanwhile
        shutil.rmtree(partial)
    return folder


def spark_kafka_source() -> list[str]:
    """Return the jars of Spark's Kafka source and sink that pyspark does not include."""
    prefixes = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    return [str(jar) for jar in jars(SPARK_KAFKA_SOURCE).glob("*.jar") if jar.name.startswith(prefixes)]


def is_fetched(pom: Path) -> bool:
    return _folder(pom).is_dir()


def _folder(pom: Path) -> Path:
    return cache() / "jars" / f"{pom.stem}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"


def compile_java(sources: Sequence[Path], output: Path, kafka: Path = KAFKA) -> str:
    """Compile against the jars of `kafka` into the directory `output`; return the class path to run with.

    It begins with the jars, so that a JVM can use an archive of a broker's classes.
    """
    output.mkdir(parents=True, exist_ok=True)
    libraries = f"{jars(kafka)}/*"
    options = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-Xlint:-options"]
    command = [java_tool("javac"), *options, "-d", str(output), "-cp", libraries, *map(str, sources)]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise JavaError(_tail(process.stdout + process.stderr))
    return f"{libraries}{os.pathsep}{output}"


class Jvm:
    """A Java program that reads commands from its standard input and answers each with one line."""

    def __init__(self, class_path: str, main: str, *arguments: str, options: Sequence[str] = ()) -> None:
        logging = (LOGGING, *VM_LOGGING)
        command = [java_tool("java"), *logging, *options, "-cp", class_path, main, *arguments]
        # A file, because a full pipe would stop the program.
        self._stderr = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._stderr.seek(0)
            raise JavaError(f"{line:.1000}: {_tail(self._stderr.read())}")
        return answer.rstrip("\n")

    def close(self) -> None:
        self._process.communicate()
        self._stderr.close()

    def __enter__(self) -> "Jvm":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
