"""The bill of materials of Rust packages in CycloneDX 1.5: `sbom.py MANIFEST PACKAGE...` writes it to the standard output.

What is linked into a program: its normal dependencies on this platform, and theirs. The order is by name, and there is no time and no
number of the machine's, so that two builds give the same bytes.
"""

import json
import subprocess
import sys


def main(manifest: str, wanted: list[str]) -> None:
    host = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    triple = next(line.split()[1] for line in host.splitlines() if line.startswith("host:"))
    command = ["cargo", "metadata", "--format-version", "1", "--filter-platform", triple, "--manifest-path", manifest]
    metadata = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    packages = {p["id"]: p for p in metadata["packages"]}
    nodes = {n["id"]: n for n in metadata["resolve"]["nodes"]}
    todo = [i for i, p in packages.items() if p["name"] in wanted]
    if len(todo) != len(wanted):
        sys.exit(f"error: not all of {wanted} are packages of {manifest}")
    found: set[str] = set()
    while todo:
        at = todo.pop()
        if at in found:
            continue
        found.add(at)
        todo += [d["pkg"] for d in nodes[at]["deps"] if any(k["kind"] is None for k in d["dep_kinds"])]

    def component(package: dict) -> dict:
        out = {"type": "library", "name": package["name"], "version": package["version"]}
        if package["license"]:
            out["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if package["source"]:
            out["purl"] = f"pkg:cargo/{package['name']}@{package['version']}"
        return out

    components = sorted((component(packages[i]) for i in found), key=lambda c: (c["name"], c["version"]))
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}
    print(json.dumps(bill, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
