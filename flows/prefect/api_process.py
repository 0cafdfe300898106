"""The process of the local Prefect API. `local_api.py` starts this file with a listening socket.

Its arguments are the number of the inherited socket. It stops when its standard input is closed, which happens when the
run that started it ends for any reason. It exits with 3 where the API does not start, as uvicorn does.
"""

import gc
import os
import signal
import socket
import sys
import threading

START_FAILED = 3


def main() -> None:
    """Serve the API on the inherited socket until the standard input is closed, or a signal comes."""
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    # Prefect's import makes a million objects that live until the end: collections take a quarter of its time.
    gc.disable()
    import uvicorn  # noqa: PLC0415 - the input is watched first
    from prefect.server.api.server import create_app  # noqa: PLC0415

    server = uvicorn.Server(uvicorn.Config(create_app(), log_level="error", lifespan="on"))
    gc.freeze()
    gc.enable()
    server.run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
    if not server.started:
        sys.exit(START_FAILED)


def _stop_at_end_of_input() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
