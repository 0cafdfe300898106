"""What a process sets up before it writes files: it cleans up after signals, and nobody else may write its files."""

import os
import signal
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_SIGNAL_EXIT = 128
"""A shell's exit code for a program that a signal ended is this plus the signal's number."""


@contextmanager
def on_signals(numbers: Collection[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call the handler for these signals inside; afterwards the handlers before are there again."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit here, so that `finally` blocks run; the exit code is 128 + the signal.

    A signal that is ignored (nohup) or handled already stays so. Outside the main thread nothing changes.
    """
    is_main = threading.current_thread() is threading.main_thread()
    with on_signals([one for one in _ENDING if is_main and signal.getsignal(one) is signal.SIG_DFL], _exit):
        yield


def _exit(number: int, _: FrameType | None) -> NoReturn:
    # A second signal must not cut the cleaning up short.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(_SIGNAL_EXIT + number)


def deny_world_writing() -> None:
    """From now on no file or folder that this process makes can be written by all users; other modes stay."""
    # The umask can only be read by setting it.
    os.umask(os.umask(0o077) | stat.S_IWOTH)
