"""The notebook of examples/ runs, and shows the outputs that are stored in it."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from markdown_blocks import ROOT

from tests.notebooks import NOTEBOOK, execute

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
# With small queries, generating code and many tasks take longer than they save.
SETTINGS = (
    "--master local[1] --conf spark.ui.enabled=false"
    " --conf spark.sql.codegen.wholeStage=false --conf spark.sql.shuffle.partitions=1"
)


def outputs(notebook: nbformat.NotebookNode) -> dict[str, list[Any]]:
    """Return the outputs of each cell as text. An image is compared by its description, not by its bytes."""
    return {
        cell.id: [
            output.get("text") or [sorted(output["data"]), output["data"]["text/plain"]]
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def test_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples" / "kafka-logs", tmp_path / "kafka-logs", copy_function=shutil.copy2)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{SETTINGS} pyspark-shell")
    stored = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    assert outputs(execute(tmp_path)) == outputs(stored)
