"""A disk of a few kibibytes in memory, which can be full or read-only; only root can make one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PAGE = 4096


@dataclass(frozen=True)
class SmallDisk:
    """A mounted tmpfs."""

    path: Path

    def leave(self, n_bytes: int) -> None:
        """Fill the disk until about `n_bytes` are free."""
        self.free_all()
        at = os.statvfs(self.path)
        filler = at.f_bavail * at.f_frsize - n_bytes
        with (self.path / "filler").open("wb") as sink:
            sink.write(bytes(max(filler, 0)))

    def free_all(self) -> None:
        """Remove what `leave` wrote."""
        (self.path / "filler").unlink(missing_ok=True)

    def remount(self, options: str) -> None:
        """Change the disk's size, or make it read-only."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True, capture_output=True)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[SmallDisk]:
    """A tmpfs of `size` at `path`, unmounted at the end; the test is skipped where none can be mounted."""
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("not root: full and read-only disks are not tested")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here, so full and read-only disks are not tested: {mounted.stderr}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
