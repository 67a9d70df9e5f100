"""An echo service and a client of it.

python -m barewire.examples.echo 888                  answers every message on UDP port 888
python -m barewire.examples.echo 10.0.0.2:888 hello   sends "hello" and prints the answer
"""

import sys

import barewire


def serve(udp_port: int) -> None:
    with barewire.Client("echo") as client:
        client.listen(udp_port)
        print(f"listening on UDP port {udp_port}", flush=True)
        while True:
            event = client.next()
            if event is not None and event.kind == barewire.Kind.MESSAGE:
                client.send(event.flow, event.data)


def ask(where: str, text: str) -> None:
    with barewire.Client("echo") as client:
        client.send(client.connect(where), text.encode())
        while (event := client.next(timeout=5)) is not None:
            if event.kind == barewire.Kind.MESSAGE:
                print(event.data.decode())
                return
    sys.exit("echo: no answer")


if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case [port]:
                serve(int(port))
            case [where, text]:
                ask(where, text)
            case _:
                sys.exit(__doc__)
    except barewire.BarewireError as e:
        sys.exit(f"echo: {e}")
