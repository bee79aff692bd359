"""docs/notebook.ipynb runs from top to bottom on a tiny model, and is kept without outputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebook.ipynb"


def test_the_notebook_runs(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("SWEEPCAP_MODEL", str(tiny))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(NOTEBOOK.parent.parent), os.environ.get("PYTHONPATH", ""))))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    nbformat.validate(notebook)
    # Other tests run beside this one, and two threads that wait for each other then take minutes.
    notebook.cells.insert(2, nbformat.v4.new_code_cell("assert THREADS is None; THREADS = 1"))
    made = nbclient.NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [out.data for cell in made.cells for out in cell.get("outputs", ()) if "data" in out]
    assert sum("text/html" in data for data in shown) >= 6
    assert sum("image/svg+xml" in data for data in shown) == 2
