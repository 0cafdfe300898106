"""How a command exits: with one sentence on stderr, or silently where the reader of its output has gone."""

import os
import sys
from typing import NoReturn

from pipeline.core.text import printable


def fail(sentence: str, code: int) -> NoReturn:
    """Exit with the code after one sentence on stderr."""
    sys.stderr.write(f"walltime: {printable(sentence, 2000)}\n")
    sys.exit(code)


def flush() -> None:
    """Write buffered output; a closed pipe is not reported."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        exit_silently()


def exit_silently() -> NoReturn:
    """Exit with code 1 and no message, because the reader of stdout has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
