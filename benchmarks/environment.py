"""The virtual environment of the benchmarks: peers at pinned versions, the project from the source tree."""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.paths import HERE, ROOT, scratch

REQUIREMENTS = HERE / "requirements.txt"


def enter() -> None:
    """Create the environment if it is missing, and run the current command again inside it."""
    home = scratch() / f"venv-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]}"
    if Path(sys.prefix) == home:
        return
    python = home / "bin" / "python"
    complete = home / ".made"
    if not complete.exists():
        print(f"creating the benchmarks' environment in {home}", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
        complete.touch()
    # The project is not installed: Python imports it, and the kernel built in place, from the source tree.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "OPENBLAS_NUM_THREADS": "1",  # idle threads of numpy would disturb the measurements
    }
    os.execve(python, [str(python), "-m", "benchmarks", *sys.argv[1:]], variables)
