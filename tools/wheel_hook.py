"""Builds the wheel with everything under `walltime/`; the source tree has `pipeline/` and `flows/` on top level.

Packages named `pipeline` and `flows` in site-packages would collide with those of others. So the wheel has copies of
the sources in which each absolute import, and each text that is a dotted name of a module, starts with `walltime.`. An
editable installation uses the source tree as it is. Configs and samples stand beside the code.
"""

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MOVED = ("pipeline", "flows")
"""Packages of the source tree that the wheel has under `walltime/`."""

SAMPLES = ("configs/*.toml", "data_samples/README.md", "data_samples/*.swf", "data_samples/*.swf.gz")

_IMPORT = re.compile(rf"(?m)^(\s*(?:(?:>>>|\.\.\.) )?(?:from|import) )(?=(?:{'|'.join(MOVED)})(?:\.[\w.]+)?(?: |$))")
_NAME = re.compile(rf"""(["'])(?=(?:{"|".join(MOVED)})(?:\.\w+)+(?::\w+)?\1)""")
_COMMAND = re.compile(rf"(python -m )(?=(?:{'|'.join(MOVED)})\.)")


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatch calls it for each wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hand the rewritten files to the builder; nothing for an editable wheel."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="walltime-wheel-")
        made = Path(self._folder.name)
        write_package(Path(self.root), made)
        for file in sorted(path for path in made.rglob("*") if path.is_file()):
            build_data["force_include"][str(file)] = file.relative_to(made).as_posix()

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove the rewritten files."""
        if version != "editable":
            self._folder.cleanup()


def write_package(root: Path, made: Path) -> None:
    """The package `walltime` of the wheel, from the source tree `root`, in the folder `made`."""
    for source, target in _files(root):
        place = made / "walltime" / target
        place.parent.mkdir(parents=True, exist_ok=True)
        name = source.relative_to(root).as_posix()
        if source.suffix == ".py":
            place.write_text(rewritten(source.read_text(encoding="utf-8"), name), encoding="utf-8")
        else:
            shutil.copyfile(source, place)


def _files(root: Path) -> Iterator[tuple[Path, Path]]:
    """Each file of the source tree that the wheel has, and its path below `walltime/`."""
    for package in ("walltime", *MOVED):
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                yield path, path.relative_to(root / "walltime" if package == "walltime" else root)
    for pattern in SAMPLES:
        for path in sorted(root.glob(pattern)):
            yield path, path.relative_to(root)


def rewritten(text: str, name: str) -> str:
    """The text of a source file with the names of its modules below `walltime`; ValueError where one is left."""
    text = _COMMAND.sub(r"\1walltime.", _NAME.sub(r"\1walltime.", _IMPORT.sub(r"\1walltime.", text)))
    left = [one for one in imported_names(text) if one.partition(".")[0] in MOVED]
    # Such a line binds the first name, and the code after it would say `pipeline` where the name is `walltime`.
    left += [one for one in re.findall(r"(?m)^\s*import (walltime\.[\w.]+)$", text) if one.split(".")[1] in MOVED]
    if left:
        raise ValueError(f"{name}: found {', '.join(left)}, expected imports as in 'from pipeline.x import y'.")
    return text


def imported_names(text: str) -> list[str]:
    """The modules that a source file imports by absolute names."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.append(node.module)
    return found
