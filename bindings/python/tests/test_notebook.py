"""Executes a notebook: `test_notebook.py NOTEBOOK [PICTURES]`. Leaves its pictures in a folder, and prints `ok`; `SKIPPED` and what is
missing where the packages that it needs are not installed."""

import base64
import sys
from pathlib import Path

try:
    import ipykernel  # noqa: F401
    import matplotlib  # noqa: F401
    import nbformat
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    from nbclient import NotebookClient
except ImportError as e:
    print("SKIPPED", e.name)
    sys.exit()

path = Path(sys.argv[1])
notebook = nbformat.read(path, as_version=4)
nbformat.validate(notebook)
assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "it is kept without outputs"
NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
pictures = [
    output.data["image/png"]
    for cell in notebook.cells
    if cell.cell_type == "code"
    for output in cell.outputs
    if "data" in output and "image/png" in output.data
]
tables = sum("text/html" in output.get("data", {}) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
assert len(pictures) == 2 and tables == 2, (len(pictures), tables)
for number, picture in enumerate(pictures):
    data = base64.b64decode(picture)
    assert data.startswith(b"\x89PNG") and len(data) > 5000, "a picture with something on it"
    if len(sys.argv) > 2:
        (Path(sys.argv[2]) / f"{number}.png").write_bytes(data)
print("ok")
