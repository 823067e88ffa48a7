"""Java from Python: jars from Maven, compiled classes, and a JVM that answers each line with a line."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.places import HERE, cache

KAFKA = HERE / "maven" / "kafka.xml"
OLDER_KAFKA = HERE / "maven" / "kafka-3.9.xml"
SPARK_KAFKA_SOURCE = HERE / "maven" / "spark.xml"
# Named with its version: each Maven has another default.
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class JavaError(Exception):
    """No usable Java or Maven, or a Java program that failed; the message holds what it said last."""


def tool(name: str) -> str:
    """Path of java or javac: from JAVA_HOME where that is set, else from PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home, "bin"))) if home else shutil.which(name)
    if found is None:
        raise JavaError(f"no {name} found ({'in JAVA_HOME ' + home if home else 'on PATH'})")
    return found


def missing() -> str | None:
    """Why no broker can be run here, in one line; None if one can."""
    try:
        told = subprocess.run([tool("java"), "-version"], capture_output=True, text=True, check=True).stderr
        tool("javac")
    except (JavaError, OSError, subprocess.CalledProcessError) as error:
        return str(error)
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < 17:
        return f"Java 17 or newer is needed, found: {told.splitlines()[0] if told else 'none'}"
    if shutil.which("mvn") is None and not is_fetched(KAFKA):
        return "no mvn (Maven) on PATH to fetch the broker with"
    return None


def jars(pom: Path) -> Path:
    """The folder with the jars `pom` names and all they need; fetched once for each version of the file."""
    folder = _folder(pom)
    if is_fetched(pom):
        return folder
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    command = ["mvn", "-q", "-B", "-f", str(pom), COPY, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise JavaError(f"{' '.join(command)}\n{_tail(done.stdout + done.stderr)}")
    try:
        partial.rename(folder)
    except OSError:  # another process was quicker
        shutil.rmtree(partial)
    return folder


def is_fetched(pom: Path) -> bool:
    return _folder(pom).is_dir()


def _folder(pom: Path) -> Path:
    return cache() / "jars" / f"{pom.stem}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"


def compiled(sources: Sequence[Path], into: Path) -> str:
    """Compile against the Kafka jars; returns the class path to run with."""
    into.mkdir(parents=True, exist_ok=True)
    libraries = f"{jars(KAFKA)}/*"
    command = [tool("javac"), "-Xlint:-options", "-d", str(into), "-cp", libraries, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise JavaError(_tail(done.stdout + done.stderr))
    return f"{into}{os.pathsep}{libraries}"


class Jvm:
    """A Java program that reads commands from its standard input and answers each with one line."""

    def __init__(self, class_path: str, main: str, *arguments: str, options: Sequence[str] = ()) -> None:
        command = [tool("java"), *options, "-cp", class_path, main, *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
            assert self._process.stderr is not None
            raise JavaError(f"{line}: {_tail(self._process.stderr.read())}")
        return answer.rstrip("\n")

    def close(self) -> None:
        self._process.communicate()

    def __enter__(self) -> "Jvm":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
