"""Makes sample.pcap: `make_sample.py BAREWIRE OUT`, with the binary's path.

Half a minute of an emulated market of four instruments: line A of the incremental feed, and of the loops of definitions and snapshots
the first packets. The same seed gives the same bytes.
"""

import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

WHOLE, BEGIN, BEGIN_PACKETS = 19010, (19011, 19012), 10
EMULATE = "feed emulate --seed 7 --seconds 30 --after 0.1 --instruments 4 --events-per-s 40 --conflation-ms 50 --from-scratch --pcap"


def main(barewire: str, out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.pcap"
        subprocess.run([barewire, "--quiet", *EMULATE.split(), whole], check=True)
        data = whole.read_bytes()
    kept, seen, at = [data[:24]], Counter(), 24
    while at < len(data):
        size = 16 + struct.unpack_from("<I", data, at + 8)[0]
        # Ethernet, IPv4 without options, UDP.
        udp_port = struct.unpack_from(">H", data, at + 16 + 14 + 20 + 2)[0]
        seen[udp_port] += 1
        if udp_port == WHOLE or (udp_port in BEGIN and seen[udp_port] <= BEGIN_PACKETS):
            kept.append(data[at : at + size])
        at += size
    out.write_bytes(b"".join(kept))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
