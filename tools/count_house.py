"""Prints the size of the code: lines, files, functions, circles, kernels, settings, commands, tables and walks.

    .venv/bin/python -m tools.count_house            the table
    .venv/bin/python -m tools.count_house --json     the same as JSON, with the modules of each walk

A code line is a line with a token that is neither a comment nor part of a docstring of a module, class or function.
A walk runs a small log through one entry of the library and lists the modules whose functions are called. Stays are the
distinct modules; returns are the distinct pairs (from, to) by which it enters a module that it had left before.
Compiled kernels are not seen in a walk; their callers are.
"""

import argparse
import ast
import io
import json
import shutil
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median, quantiles
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOUSE = ("pipeline", "flows")
DEFINES_KERNEL = {"kernel", "called_kernel", "entry_kernel", "uncounted_kernel", "njit"}
"""Names of the decorators that compile a function."""
CONFIG = """logs = ["{log}"]
output_dir = "{out}"
[group]
template = ["user", "application"]
[checks.newest_job]
mode = "off"
"""
FIELDS = "JobID|JobName|User|Submit|Start|End|ElapsedRaw|AllocCPUS|State"

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_IGNORED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def sources(root: Path) -> dict[Path, ast.Module]:
    """The parsed files of the house by path, in order of path."""
    paths = sorted(path for room in HOUSE for path in (root / room).rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def code_lines(text: str) -> set[int]:
    """The numbers of the lines with code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Definition) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _IGNORED:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - docstrings


def function_lines(tree: ast.Module) -> list[int]:
    """The lines from `def` to the end of each function, docstrings included."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [(n.end_lineno or n.lineno) - n.lineno + 1 for n in functions]


def n_kernels(tree: ast.Module) -> int:
    """How many functions a decorator compiles."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return sum(any(_name(one) in DEFINES_KERNEL for one in n.decorator_list) for n in functions)


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def imports(trees: dict[Path, ast.Module], root: Path) -> dict[str, set[str]]:
    """The modules of the house that each module imports, also within functions."""
    names = {_module(path, root): path for path in trees}
    found: dict[str, set[str]] = {}
    for path, tree in trees.items():
        wanted: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                wanted.update(one.name for one in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{one.name}" for one in node.names}
                wanted.update(inner & set(names) or {node.module})
        found[_module(path, root)] = wanted & set(names)
    return found


def _module(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def circles(imported: dict[str, set[str]]) -> list[list[str]]:
    """Modules that reach themselves by imports, each circle once."""
    reach = {name: _reached(name, imported) for name in imported}
    tied = {frozenset(o for o in reach[name] if name in reach[o]) for name in imported if name in reach[name]}
    return sorted(sorted(members) for members in tied)


def _reached(name: str, imported: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    to_visit = list(imported[name])
    while to_visit:
        one = to_visit.pop()
        if one not in found:
            found.add(one)
            to_visit += imported[one]
    return found


def n_settings() -> int:
    """How many values a config may set: the leaves of the sections."""
    from pipeline.settings import RunSettings  # noqa: PLC0415  (the counts of files need no package of the house)

    return sum(1 for _ in _leaves(RunSettings))


def _leaves(section: Any) -> Iterator[str]:
    for name, field in section.model_fields.items():
        inner = field.annotation
        if hasattr(inner, "model_fields"):
            yield from (f"{name}.{leaf}" for leaf in _leaves(inner))
        else:
            yield name


def commands() -> dict[str, list[str]]:
    """The commands by group; those of no group under an empty name."""
    import typer  # noqa: PLC0415

    from flows.cli.typer_app import application  # noqa: PLC0415

    top: Any = typer.main.get_command(application())
    groups = {name: sorted(command.commands) for name, command in top.commands.items() if hasattr(command, "commands")}
    return {"": sorted(set(top.commands) - set(groups)), **groups}


def walk(call: Callable[[], object]) -> list[str]:
    """The modules of the house that a call enters, repeats in a row once."""
    calls: list[str] = []

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and any(path.is_relative_to(ROOT / room) for room in HOUSE):
            calls.append(path.relative_to(ROOT).with_suffix("").as_posix())

    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [module for module, _ in groupby(calls)]


def returns(modules: list[str]) -> int:
    """Distinct pairs (from, to) of neighbours whose second module occurred before."""
    visited, pairs = set(modules[:1]), set()
    for before, after in pairwise(modules):
        if after in visited:
            pairs.add((before, after))
        visited.add(after)
    return len(pairs)


def small_dump() -> str:
    """24 jobs of one user and script on six sizes, four times each, with one step a job, as `sacct -P` writes them."""
    lines = [FIELDS]
    for number in range(24):
        procs, day = 2 ** (number % 6), 1 + number
        elapsed_s = 600 + 36_000 // procs + 10 * (number % 4)
        hours, rest = divmod(elapsed_s, 3600)
        end = f"2026-01-{day:02d}T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
        times = f"2026-01-{day:02d}T00:00:00|2026-01-{day:02d}T00:00:00|{end}|{elapsed_s}|{procs}|COMPLETED"
        lines += [f"{number}|solver.sh|u1|{times}", f"{number}.batch|batch||{times}"]
    return "\n".join(lines) + "\n"


def walks(folder: Path) -> dict[str, list[str]]:
    """The walks of ingest, learning, all steps, a night with publication, and a query, over a small dump."""
    entries = _entries(folder)
    # The first walk imports modules and compiles kernels.
    for call in entries.values():
        call()
    return {name: walk(call) for name, call in entries.items()}


def _entries(folder: Path) -> dict[str, Callable[[], object]]:
    from flows.cli.typer_app import application  # noqa: PLC0415
    from pipeline.run import STEPS, start_run  # noqa: PLC0415
    from pipeline.settings import RunSettings  # noqa: PLC0415
    from tools.plain_run import run_plain  # noqa: PLC0415

    log, config, out = folder / "dump.txt", folder / "site.toml", folder / "out"
    log.write_text(small_dump())
    config.write_text(CONFIG.format(log=log, out=out))
    settings = RunSettings.model_validate({"group": {"template": ["user", "application"]}})
    run = start_run(settings, [log])
    jobs = next(tables["jobs"] for _, tables, _ in run_plain(run) if "jobs" in tables)
    step = {one.name: one for one in STEPS}

    def command(*words: str) -> None:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            application()([*words], standalone_mode=False)

    def night() -> None:
        shutil.rmtree(out, ignore_errors=True)
        command("run", "--plain", str(config))

    return {
        "ingest": lambda: step["ingest"].call(run),
        "learn": lambda: step["learn"].call(run, jobs),
        "all steps": lambda: [None for _ in run_plain(run)],
        "a night": night,
        "a query": lambda: command("query", "--from", str(out), "--user", "u1", "--procs", "8"),
    }


def figures(root: Path) -> dict[str, Any]:
    """Every count of the house in `root`, without the walks."""
    trees = sources(root)
    texts = {path: path.read_text(encoding="utf-8") for path in trees}
    lines = sorted(n for tree in trees.values() for n in function_lines(tree))
    imported = imports(trees, root)
    importers = {name: sum(name in wanted for wanted in imported.values()) for name in imported}
    return {
        "code lines": sum(len(code_lines(text)) for text in texts.values()),
        "files": len(trees),
        "lines of a function, median": int(median(lines)),
        "lines of a function, 90th percentile": int(quantiles(lines, n=10)[-1]),
        "lines of a function, longest": lines[-1],
        "files over 300 lines": sum(text.count("\n") > 300 for text in texts.values()),
        "modules that one other imports": sum(n == 1 for n in importers.values()),
        "circles among files": len(circles(imported)),
        "uses of import_module": sum(text.count("import_module(") for text in texts.values()),
        "compiled functions": sum(n_kernels(tree) for tree in trees.values()),
    }


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON, with the modules of every walk")
    parser.add_argument("--files-only", type=Path, help="count the files of another checkout, and walk nothing")
    given = parser.parse_args()
    found = figures(given.files_only or ROOT)
    walked: dict[str, list[str]] = {}
    if not given.files_only:
        grouped = commands()
        found |= {"settings": n_settings(), "commands": len(grouped.pop("")), "groups of commands": len(grouped)}
        found |= published_counts()
        with tempfile.TemporaryDirectory() as folder:
            walked = walks(Path(folder))
        for name, modules in walked.items():
            found[f"walk of {name}, stays / returns"] = f"{len(set(modules))} / {returns(modules)}"
    print(json.dumps(found | {"walks": walked}, indent=1) if given.json else as_table(found))


def published_counts() -> dict[str, int]:
    """How many tables a run publishes, and their columns."""
    from pipeline.run import PUBLISHED, STEP_TABLES  # noqa: PLC0415

    return {"published tables": len(PUBLISHED), "columns": sum(len(STEP_TABLES[name].columns) for name in PUBLISHED)}


def as_table(found: dict[str, Any]) -> str:
    """The figures, one a line."""
    shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in found.items()}
    return "\n".join(f"{name:40} {value}" for name, value in shown.items())


if __name__ == "__main__":
    main()
