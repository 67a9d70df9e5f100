"""Run folders and documents: `test_runs.py RUNS`, where RUNS has documents. Prints `ok`."""

import json
import sys
import tempfile
from pathlib import Path

import barewire.runs
from expect import raises

document = Path(sys.argv[1]) / "2026-11-21-message-service/daemon-w1.json"
known = json.loads(document.read_text())["rows"]
read = list(barewire.runs.rows(document))
assert len(read) == len(known) > 0
for row, own in zip(read, known, strict=True):
    assert row["file"] == str(document)
    assert row["rtt_ns.p50"] == own["rtt_ns"]["p50"] and row["system"] == own["system"]
    assert row["runs"] == own["runs"], "lists stay"

with tempfile.TemporaryDirectory() as folder:
    run = Path(folder) / "one"
    run.mkdir()
    (run / "manifest.json").write_text('{"command": "x"}')
    (run / "rows.jsonl").write_text("\n".join(map(json.dumps, known)) + "\n")
    assert [r["rate_per_s"] for r in barewire.runs.rows(run)] == [r["rate_per_s"] for r in known]
    assert barewire.runs.manifest(run) == {"command": "x"}
    (Path(folder) / "two.json").write_text(document.read_text())
    assert len(list(barewire.runs.rows(folder))) == 2 * len(known)
    (run / "rows.jsonl").write_text("{}\n{")
    assert "line 2" in str(raises(ValueError, lambda: list(barewire.runs.rows(run))))
    (Path(folder) / "two.json").write_text('{"schema": 99}')
    assert "later" in str(raises(ValueError, lambda: list(barewire.runs.rows(Path(folder) / "two.json"))))
    raises(FileNotFoundError, lambda: list(barewire.runs.rows(Path(folder) / "none")))

for library in ("pandas", "polars"):
    try:
        frame = barewire.runs.frame(document, library)
    except ImportError:
        continue
    assert list(frame["rtt_ns.p50"]) == [row["rtt_ns"]["p50"] for row in known]
print("ok")
