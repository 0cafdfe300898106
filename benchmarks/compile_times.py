"""CPU seconds of compilation by kernel in a run of the sample log with an empty cache.

python -m benchmarks.compile_times [--config configs/sample.toml] [--json]

A kernel's time holds all that is compiled for it for the first time: numba's own functions that several kernels call
count for the first of them. "Linked" counts the functions compiled on the way. The exit code is 1 above the ceiling.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from typing import Any

CEILING_S = 25.0


def measured(config: str, folder: str) -> dict[str, dict[str, float]]:
    """By entry kernel: `cpu_s` and `linked`."""
    os.environ["NUMBA_CACHE_DIR"] = f"{folder}/cache"
    from numba.core import event  # noqa: PLC0415  (numba reads the cache's folder when it is loaded)

    found: dict[str, dict[str, float]] = defaultdict(lambda: {"cpu_s": 0.0, "linked": 0.0})
    begun: list[tuple[str, float]] = []

    class Compilations(event.Listener):
        def on_start(self, event: Any) -> None:
            function = event.data["dispatcher"].py_func
            begun.append((f"{function.__module__}.{function.__name__}", time.thread_time()))

        def on_end(self, _: Any) -> None:
            name, start_s = begun.pop()
            if begun:
                found[begun[0][0]]["linked"] += 1
            else:
                found[name]["cpu_s"] += time.thread_time() - start_s

    event.register("numba:compile", Compilations())
    from flows.services.run.running import run_and_publish  # noqa: PLC0415

    run_and_publish(config=config, output_dir=f"{folder}/out")
    return dict(found)


def main() -> int:
    """Print the table, the largest first; 1 above the ceiling."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="configs/sample.toml")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(given.config, folder)
    total_s = sum(kernel["cpu_s"] for kernel in found.values())
    if given.json:
        print(json.dumps({"kernels": found, "total_cpu_s": total_s, "ceiling_cpu_s": CEILING_S}))
    else:
        for name, kernel in sorted(found.items(), key=lambda item: -item[1]["cpu_s"]):
            print(f"{name:60} {kernel['cpu_s']:8.2f} {kernel['linked']:5.0f}")
        print(f"{'total':60} {total_s:8.2f}")
    return int(total_s > CEILING_S)


if __name__ == "__main__":
    sys.exit(main())
