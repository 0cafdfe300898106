"""Talks to the site's own Slurm: runs `sacct` as a source for the text reader.

Source: man sacct (Slurm 18 to 25), and its --helpformat for the fields this one offers. No shell is involved, and
nothing is written to disk. Slurm takes every byte but NUL in a job name, 0x1f too, so only a delimiter nobody could
have foreseen cannot occur in one: 0x1f with random letters behind it. The last field is a number, so that no newline in
a name can look like a row's end.
"""

import os
import select
import signal
import subprocess  # nosec B404 # lists of arguments, no shell
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from pipeline.errors import InputError, printable
from pipeline.ingest.sources import ReadOnce, Source
from pipeline.settings import IngestSettings, SiteSettings

SACCT_TIMEOUT_S = 900.0
"""Longest wait for the next output of sacct: its database may be busy with other queries for minutes."""

_HELP_TIMEOUT_S = 60.0
_UNSET = ("SACCT_FORMAT", "SLURM_BITSTR_LEN")
_PINNED = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard"}
_DO = (
    "check that it works in a terminal, and that PATH and SLURM_CONF are the same there (ingest.sacct_command names it)"
)
_PIPE_BYTES = 1 << 18
_SAID_BYTES = 2000
_END_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs that were in the system at some time from `since_s` up to `until_s` (UTC epoch seconds)."""

    since_s: int
    until_s: int


@contextmanager
def live(
    site: SiteSettings,
    settings: IngestSettings,
    window: Window,
    environment: Mapping[str, str],
    token: bytes,
    cluster: str | None = None,
) -> Iterator[tuple[Source, SiteSettings, IngestSettings]]:
    """sacct's records of a window, and what to read them under: its delimiter, and UTC whatever the site's zone.

    sacct is started when they are first read, and ended at the latest here.
    environment: sacct's, with PATH; `token`: at least 4 random bytes; `cluster`: by default sacct's own. InputError
    where sacct is not there, fails, or is silent for longer than SACCT_TIMEOUT_S.
    """
    known = {name: value for name, value in environment.items() if name not in _UNSET} | _PINNED
    since, until = (
        datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S") for at_s in (window.since_s, window.until_s)
    )
    if since >= until:
        raise InputError("--since", since, f"an instant before {until}")
    delimiter = "\x1f" + token.hex()
    command = (
        settings.sacct_command, "--allusers", "--duplicates", "--parsable2", "--noconvert", f"--delimiter={delimiter}",
        f"--starttime={since}", f"--endtime={until}", f"--format={','.join(offered(settings, known))}",
        *([f"--clusters={cluster}"] if cluster else []),
    )  # fmt: skip
    with Program(command, known, SACCT_TIMEOUT_S, _DO) as program:
        records = ReadOnce(BufferedReader(program))
        yield (
            Source(Path("sacct"), "sacct", opened=lambda: cast(BinaryIO, records.view())),
            site.model_copy(update={"timezone": "UTC"}),
            settings.model_copy(update={"format": "sacct", "delimiter": delimiter}),
        )


def offered(settings: IngestSettings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What the reader of sacct's text reads (COLUMNS) and this sacct offers, as it spells that; free text stands first.

    Of several fields that tell the same the best is asked for. InputError where too few are offered.
    """
    # Not at the top: the reader brings numba, which `apply` and `when` do without.
    from pipeline.ingest.formats.sacct.columns import COLUMNS  # noqa: PLC0415

    said = run((settings.sacct_command, "--helpformat"), environment, _HELP_TIMEOUT_S, _DO)
    spelt = {word.lower(): word for word in said.decode("utf-8", "replace").split()}
    offers = {
        what: next(spelt[name] for name in column.names if name in spelt)
        for what, column in COLUMNS.items()
        if not spelt.keys().isdisjoint(column.names)
    }
    in_order = sorted(offers, key=lambda what: (what != "id", not COLUMNS[what].kind.is_text))
    if not {"id", "submit_s", "state"} <= set(offers):
        found = f"no field list from --helpformat ('{printable(said[:60].decode('utf-8', 'replace'))}')"
        raise InputError(printable(settings.sacct_command), found, "JobID, Submit, State and more", _DO)
    return tuple(dict.fromkeys(offers[what] for what in in_order))


def run(
    command: Sequence[str], environment: Mapping[str, str], timeout_s: float, do: str, given: str | None = None
) -> bytes:
    """All a short-spoken program says, which reads `given`, or nothing; InputError as `Program` raises it."""
    with Program(command, environment, timeout_s, do, given) as program:
        return program.readall()


class Program(RawIOBase):
    """A program's standard output as a stream. Its first reading starts it, and `close` ends it, whatever it does then.

    InputError where the program is not there, ends with another code than 0, or says nothing for `timeout_s`; `do` is
    what the sentence advises. Of its standard error the first bytes go into that sentence.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], timeout_s: float, do: str,
        given: str | None = None,
    ) -> None:  # fmt: skip
        self._command, self._environment, self._timeout_s, self._do = command, environment, timeout_s, do
        self._given, self._errors = given or "", _unnamed_file("errors")
        self._process: subprocess.Popen[bytes] | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Waits for the next output, up to the buffer's size; 0 only where the program has ended well."""
        process = self._process = self._process or self._start()
        assert process.stdout is not None  # nosec B101 # for the type checker
        if not select.select([process.stdout], [], [], self._timeout_s)[0]:
            raise self._failed(f"no output for {self._timeout_s:g} s")
        data = os.read(process.stdout.fileno(), min(len(buffer), _PIPE_BYTES))
        if not data:
            try:
                code = process.wait(_END_WAIT_S)
            except subprocess.TimeoutExpired:
                raise self._failed("an output that ended before the program did") from None
            if code:
                raise self._failed(f"signal {-code}" if code < 0 else f"exit code {code}")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """End the program, where it still runs, and what it has started."""
        process, self._process = self._process, None
        if process is not None:
            # Its group, because sacct may be a script that has started the real one; gone already is as good.
            if process.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            assert process.stdout is not None  # nosec B101 # for the type checker
            process.stdout.close()
        self._errors.close()
        super().close()

    def _start(self) -> "subprocess.Popen[bytes]":
        # A list of arguments and no shell: what runs is the command the site has set.
        try:
            with _unnamed_file("given") as given:
                given.write(self._given.encode())
                given.seek(0)
                return subprocess.Popen(  # noqa: S603 # nosec B603 # a list of arguments, no shell
                    list(self._command), stdin=given, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0,
                    env=dict(self._environment), start_new_session=True,
                )  # fmt: skip
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise self._failed(f"a program that cannot be run ({reason})") from None

    def _failed(self, found: str) -> InputError:
        said = os.pread(self._errors.fileno(), _SAID_BYTES, 0)
        shown = printable(" ".join(said.decode("utf-8", "replace").split()), 300)
        found = f"{found} and '{shown}'" if shown else found
        return InputError(printable(self._command[0]), found, "records and exit code 0", self._do)


def _unnamed_file(name: str) -> IO[bytes]:
    """A file that ends with its last user: in memory where the system has such, so that a full disk stops nothing."""
    return os.fdopen(os.memfd_create(name), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()
