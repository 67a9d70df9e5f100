"""What is never published is left out: `publishable.py MANIFEST` says `--exclude NAME` for each such package, and with `--names` the names of
the others."""

import json
import subprocess
import sys

command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", sys.argv[1]]
metadata = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
if sys.argv[2:] == ["--names"]:
    print(*(p["name"] for p in metadata["packages"] if p["publish"] != []))
else:
    print(*(f"--exclude {p['name']}" for p in metadata["packages"] if p["publish"] == []))
