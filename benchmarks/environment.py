"""The benchmarks' own environment: peers at pinned versions, and the project as it stands in the tree."""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.places import HERE, ROOT, scratch

REQUIREMENTS = HERE / "requirements.txt"


def enter() -> None:
    """Go on in that environment: makes it if it is new, and runs this very command again inside it."""
    home = scratch() / f"venv-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]}"
    if Path(sys.prefix) == home:
        return
    python = home / "bin" / "python"
    made = home / ".made"
    if not made.exists():
        print(f"making the benchmarks' environment in {home}", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
        made.touch()
    # The project is not installed there: it is taken from the tree, with the kernel built in place.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "OPENBLAS_NUM_THREADS": "1",  # numpy's would idle noisily
    }
    os.execve(python, [str(python), "-m", "benchmarks", *sys.argv[1:]], variables)
