"""What the operating system has to do with us: its errors in one sentence (where, found, expected, what to do), files
that a person names, signals, and who may write what we make."""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from pipeline.errors import ConfigError, InputError, printable

if TYPE_CHECKING:
    from pipeline.settings import RunSettings

SCRATCH_PREFIX = ".walltime-scratch-"
"""How a folder for drafts beside a user's file is named."""
_ELSEWHERE = "choose another path"
_SENTENCES = {
    errno.ENOTDIR: ("a file where a folder is needed", "a folder", _ELSEWHERE),
    errno.EEXIST: ("a file where a folder is needed", "a folder", _ELSEWHERE),
    errno.EISDIR: ("a folder", "a file", "give the path of one"),
    errno.ENOENT: ("no such file or folder", "an existing one", "check the path"),
    errno.EACCES: ("no permission to use it", "a path that you may use", "change its permissions, or " + _ELSEWHERE),
    errno.EPERM: ("no permission to use it", "a path that you may use", "change its permissions, or " + _ELSEWHERE),
    errno.EROFS: ("a read-only disk", "a place that can be written", _ELSEWHERE),
    errno.ENOSPC: ("a full disk", "room to write", "free some, or " + _ELSEWHERE),
    errno.EDQUOT: ("a disk quota used up", "room to write", "free some, or " + _ELSEWHERE),
    errno.ENAMETOOLONG: ("a name that is too long", "a shorter one", _ELSEWHERE),
}
_DRAFT = re.compile(r"(?<![^/])\.([^/]+)\.\d+\.draft(?![^/])")
"""A part of a path that is a draft of the file or folder that it names."""


def os_failure(error: OSError) -> InputError:
    """The error as an InputError that names the user's path instead of a draft's."""
    message = (error.strerror or str(error)).rstrip(".").lower()
    found, expected, do = _SENTENCES.get(error.errno or 0, (message, "a path that can be used", _ELSEWHERE))
    path = _user_path(str(error.filename)) if error.filename else None
    if path is not None and error.errno == errno.ENOTDIR:
        path = next((parent for parent in path.parents if parent.is_file()), path)
    return InputError(printable(str(path), 1000) if path else "a file", found, expected, do)


def sentence_of(error: BaseException) -> str:
    """What an error says; one of the system in our words."""
    return str(os_failure(error) if isinstance(error, OSError) else error)


def _user_path(path: str) -> Path:
    """The path that the user named; drafts of it stand beside it, or in a scratch folder there."""
    return Path(_DRAFT.sub(r"\1", path.partition(f"/{SCRATCH_PREFIX}")[0]))


@contextmanager
def naming_path(path: Path) -> Iterator[None]:
    """Add `path` to an OSError that names no file, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno:
            error.filename = str(path)
        raise


def read_text(path: Path, expected: str) -> str:
    """The text of a file; InputError where it cannot be read or is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(printable(str(path)), "no such file", expected, "give the path of one") from None
    except OSError as error:
        failure = os_failure(error)
        raise InputError(printable(str(path)), failure.found, expected, failure.do) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        found = f"bytes that are no UTF-8 (the first is 0x{error.object[error.start]:02x})"
        raise InputError(f"{printable(str(path))}, line {line}", found, expected, "save it as UTF-8") from None


def config_settings(config: Path) -> RunSettings:
    """The settings of a TOML file; InputError names file, key, what was found and what is valid."""
    import tomllib  # noqa: PLC0415  (a query without a config starts faster)

    from pipeline.settings import parse_settings  # noqa: PLC0415

    name = printable(str(config))
    try:
        return parse_settings(tomllib.loads(read_text(config, "a TOML config in UTF-8")), name)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        failure: InputError = ConfigError(name, f"a TOML error ({error})", "valid TOML")
    except InputError as error:
        failure = error
    if config.suffix != ".toml" and ("TOML error" in failure.found or "no UTF-8" in failure.found):
        do = f"make one for a log with walltime init --log {name}"
        failure = InputError(name, "a file that is no TOML", "a TOML config", do)
    raise failure


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
