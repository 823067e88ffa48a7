"""Run the notebook of examples/ in a kernel of its own. After a change of the notebook, renew its outputs:

python -m tests.notebooks
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOTEBOOK = Path(__file__).parent.parent / "examples" / "snapshot.ipynb"


def execute(directory: Path) -> NotebookNode:
    """Return NOTEBOOK with new outputs, except stderr, where Spark writes its log.

    Args:
        directory: the working directory. It contains the sample data, as examples/ does.

    Raises nbclient's CellExecutionError if a cell fails.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(
        notebook, timeout=300, record_timing=False, resources={"metadata": {"path": directory}}
    ).execute()
    notebook.metadata.language_info = {"name": "python"}  # without the version of the Python that ran it
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


if __name__ == "__main__":
    nbformat.write(execute(NOTEBOOK.parent), NOTEBOOK)
