"""A Go module as a module proxy serves it from a folder: `gozip.py MODULE_FOLDER EXTRA_FILE... OUT`, with VERSION from the environment."""

import json
import os
import sys
import zipfile
from pathlib import Path


def main(module: Path, extra: list[Path], out: Path) -> None:
    version = "v" + os.environ["VERSION"]
    go_mod = (module / "go.mod").read_bytes()
    path = go_mod.decode().split()[1]
    folder = out / path / "@v"
    folder.mkdir(parents=True, exist_ok=True)
    files = {str(f.relative_to(module)): f for f in module.rglob("*") if f.is_file()} | {f.name: f for f in extra}
    with zipfile.ZipFile(folder / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for name in sorted(files):
            # Without a time of its own, so that two builds give the same bytes.
            z.writestr(zipfile.ZipInfo(f"{path}@{version}/{name}"), files[name].read_bytes(), zipfile.ZIP_DEFLATED)
    (folder / f"{version}.mod").write_bytes(go_mod)
    (folder / f"{version}.info").write_text(json.dumps({"Version": version}))
    (folder / "list").write_text(version + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(f) for f in sys.argv[2:-1]], Path(sys.argv[-1]))
