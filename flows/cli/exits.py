"""How a command ends: with a sentence, or without one where the reader has gone."""

import os
import sys
from typing import NoReturn

from pipeline.core.text import printable


def fail(sentence: str, code: int) -> NoReturn:
    """Exit with the code after one sentence on stderr."""
    sys.stderr.write(f"walltime: {printable(sentence, 2000)}\n")
    sys.exit(code)


def flush() -> None:
    """Write what is left; a reader who has gone is no failure worth a message."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        hush()


def hush() -> NoReturn:
    """Exit without a word, where nobody reads any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
