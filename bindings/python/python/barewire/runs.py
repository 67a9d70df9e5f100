"""Runs and reports of `barewire bench` as rows and data frames.

>>> for row in barewire.runs.rows("runs/2026-11-21-daemon"):
...     print(row["system"], row["rtt_ns.p50"])
>>> frame = barewire.runs.frame("report.json")            # pandas, or library="polars"

What is read: a run folder (`--run`), a JSON document (`--out`, `--json`), or a folder with any of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["frame", "manifest", "rows"]

# Arrays with the bench that their rows are of; those of schema 1 after the first. Later ones say it in each row.
_ARRAYS = {
    "rows": None,
    "switch_rows": "switch",
    "feed_rows": "feed",
    "rc_rows": "rc",
    "data": "rc-data",
    "rates": "feed-rates",
    "decoders": "feed-decoders",
}
_SCHEMA_MAX = 2


def _flat(value: dict[str, Any], before: str, into: dict[str, Any]) -> dict[str, Any]:
    for key, item in value.items():
        if isinstance(item, dict):
            _flat(item, f"{before}{key}.", into)
        else:
            into[before + key] = item
    return into


def _of_file(path: Path, found: bool) -> Iterator[dict[str, Any]]:
    text = path.read_text()
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as e:
                    raise ValueError(f"{path}: line {number}: {e}") from None
        return
    try:
        document = json.loads(text)
    except json.JSONDecodeError as e:
        raise ValueError(f"{path}: {e}") from None
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        if found:
            return
        raise ValueError(f"{path}: that is no document of barewire")
    if document["schema"] > _SCHEMA_MAX:
        raise ValueError(f"{path}: schema {document['schema']} is of a later release")
    for name, bench in _ARRAYS.items():
        for row in document.get(name, []):
            yield row if bench is None else {"bench": bench} | row


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif (path / "rows.jsonl").is_file():
        yield path / "rows.jsonl"
    elif path.is_dir():
        runs = sorted(p.parent / "rows.jsonl" for p in path.rglob("manifest.json"))
        inside = {run.parent for run in runs}
        documents = [p for p in sorted(path.rglob("*.json")) if not inside & set(p.parents)]
        if not runs and not documents:
            raise FileNotFoundError(f"{path}: no runs are there")
        yield from [*runs, *documents]
    else:
        raise FileNotFoundError(f"{path}: no such file or folder")


def rows(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Rows, one after another. Objects within one are taken apart, with a dot between the names; `file` says where it is from.

    A folder's JSON files that are no documents of barewire are passed over.
    """
    for file in _files(Path(path)):
        for row in _of_file(file, file != Path(path)):
            yield _flat(row, "", {"file": str(file)})


def manifest(run: str | os.PathLike[str]) -> dict[str, Any]:
    """What a run folder says of itself: command, commit, configuration, fingerprint, files with checksums."""
    return json.loads((Path(run) / "manifest.json").read_text())


def frame(path: str | os.PathLike[str], library: str = "pandas"):
    """The rows as a data frame of pandas or Polars, which has to be installed; a column that a row lacks is empty there."""
    all_rows = list(rows(path))
    if library == "pandas":
        import pandas

        return pandas.DataFrame(all_rows)
    if library == "polars":
        import polars

        return polars.DataFrame(all_rows, infer_schema_length=None)
    raise ValueError(f"there is no '{library}'; there are pandas, polars")
