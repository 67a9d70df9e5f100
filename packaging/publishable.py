"""The options that leave out what is never published: `publishable.py MANIFEST` says `--exclude NAME` for each such package."""

import json
import subprocess
import sys

command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", sys.argv[1]]
metadata = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
print(*(f"--exclude {p['name']}" for p in metadata["packages"] if p["publish"] == []))
