"""Runs the notebooks and stores their outputs in them: python docs/_site/notebook_runs.py

A test runs them too, and compares.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def run(path: Path) -> nbformat.NotebookNode:
    """Returns the notebook as it is after a run in an empty folder. What a cell writes to stderr is
    left out: it differs from run to run."""
    notebook = nbformat.read(path, as_version=4)
    folder_of_commands = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{folder_of_commands}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute(env=environment)
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    del notebook.metadata["language_info"]
    return notebook


if __name__ == "__main__":
    for one in sorted(NOTEBOOKS.glob("*.ipynb")):
        nbformat.write(run(one), one)
        print(one.name)
