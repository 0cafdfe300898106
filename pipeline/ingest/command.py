"""Another program's output as bytes to read; its failure, and its silence, as one sentence. No shell, no file."""

import io
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.text import printable

_PIPE_BYTES = 1 << 18
_SAID_BYTES = 2000
_END_WAIT_S = 10.0


def run(command: Sequence[str], environment: Mapping[str, str], timeout_s: float, do: str) -> bytes:
    """All a short-spoken program says; InputError as `Output` raises it."""
    output = Output(command, environment, timeout_s, do)
    try:
        return output.view().readall()
    finally:
        output.stop()


class Output:
    """A program's standard output. It is started by the first reading, and reads blockwise from a pipe.

    A view starts at the first byte. As long as no more than REPLAY_BYTES have been read, the next view gets them again
    from memory; after that a new view starts the program anew. InputError where the program is not there, ends with
    another code than 0, or says nothing for `timeout_s`; `do` is what the sentence advises.
    """

    REPLAY_BYTES = 1 << 17

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], timeout_s: float, do: str) -> None:
        self._command, self._environment, self._timeout_s, self._do = command, environment, timeout_s, do
        self._process: subprocess.Popen[bytes] | None = None
        self._selector = selectors.DefaultSelector()
        self._replay: bytes | None = b""
        self._said, self._is_over = b"", False

    def view(self) -> "View":
        """The output from its first byte on."""
        if self._replay is None:
            self.stop()
        return View(self)

    def bytes_at(self, place: int, size: int) -> bytes:
        """Up to `size` bytes from `place`, which is what has been read or, after that, its end; none at the end."""
        if self._replay is not None and place < len(self._replay):
            return self._replay[place : place + size]
        fresh = self._fresh(size)
        if self._replay is not None:
            kept = self._replay + fresh
            self._replay = kept if len(kept) <= self.REPLAY_BYTES else None
        return fresh

    def stop(self) -> None:
        """End the program, where it still runs, and what it started; the next view starts it anew."""
        process, self._process, self._replay = self._process, None, b""
        self._said, self._is_over = b"", False
        if process is None:
            return
        self._selector.close()
        self._selector = selectors.DefaultSelector()
        # Its group, because sacct may be a script that has started the real one; gone already is as good.
        if process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()

    def _fresh(self, size: int) -> bytes:
        process = self._process or self._start()
        parts: list[bytes] = []
        while size > 0 and not self._is_over:
            ready = self._selector.select(self._timeout_s)
            if not ready:
                raise self._failed(f"no output for {self._timeout_s:g} s")
            for key, _ in ready:
                data = os.read(key.fd, min(max(size, 1), _PIPE_BYTES))
                if key.data == "err":
                    self._hear(key.fileobj, data)
                elif data:
                    parts.append(data)
                    size -= len(data)
                else:
                    self._check_end(process)
                    self._is_over = True
        return b"".join(parts)

    def _hear(self, pipe: Any, data: bytes) -> None:
        """Keep the start of what the program complains of."""
        self._said = (self._said + data)[:_SAID_BYTES]
        if not data:
            self._selector.unregister(pipe)

    def _start(self) -> "subprocess.Popen[bytes]":
        # A list of arguments and no shell: what runs is the command the site has set.
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(  # noqa: S603
                list(self._command), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0,
                env=dict(self._environment), start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise self._failed(f"a program that cannot be run ({reason})") from None
        assert process.stdout is not None and process.stderr is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, "out")
        self._selector.register(process.stderr, selectors.EVENT_READ, "err")
        self._process = process
        return process

    def _check_end(self, process: "subprocess.Popen[bytes]") -> None:
        """InputError where the program, which has closed its output, does not end, or not well."""
        try:
            code = process.wait(_END_WAIT_S)
        except subprocess.TimeoutExpired:
            raise self._failed("an output that ended before the program did") from None
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        self._said = (self._said + (process.stderr.read() or b""))[:_SAID_BYTES]
        if code:
            raise self._failed(f"signal {-code}" if code < 0 else f"exit code {code}")

    def _failed(self, found: str) -> InputError:
        said = printable(" ".join(self._said.decode("utf-8", "replace").split()), 300)
        found = f"{found} and '{said}'" if said else found
        return InputError(printable(self._command[0]), found, "records and exit code 0", self._do)


class View(io.RawIOBase):
    """An output as a stream; closing it leaves the program alone."""

    def __init__(self, output: Output) -> None:
        self._output, self._place = output, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, fewer only at the end."""
        if size < 0:
            return self.readall()
        data = self._output.bytes_at(self._place, size)
        self._place += len(data)
        return data

    def readall(self) -> bytes:
        parts = []
        while data := self.read(1 << 20):
            parts.append(data)
        return b"".join(parts)
