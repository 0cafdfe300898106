"""Exit codes: every one that the code can end with is listed, with the commands it names, and the document agrees."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from docs.tools.reference_commands import EXIT_CODES
from flows.cli.typer_app import application
from pipeline.errors import WalltimeError

ROOT = Path(__file__).resolve().parents[3]
LISTED = {one.code for one in EXIT_CODES}
PASSED_ON = {
    "code", "error.exit_code", "answer.exit_code", "_SIGNAL_EXIT + number",
    "application(arguments)(arguments, prog_name='walltime', standalone_mode=False)",
}  # fmt: skip
"""Expressions that pass on a code which another place decides; each of those places is looked at too."""

OTHER_PROGRAMS = {ROOT / "flows" / "prefect" / "api_process.py"}
"""Processes that a command starts and whose codes it reads itself."""


def sources() -> list[Path]:
    return [path for room in ("flows", "pipeline") for path in sorted((ROOT / room).rglob("*.py"))]


def exits_of(tree: ast.AST) -> Iterator[ast.expr]:
    """The codes of calls that end the process: sys.exit(x), typer.Exit(x), _fail(sentence, x), Answer(exit_code=x)."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in ("sys.exit", "SystemExit", "typer.Exit", "os._exit") and node.args:
            yield node.args[0]
        elif name == "_fail" and len(node.args) == 2:
            yield node.args[1]
        elif name == "Answer":
            yield from (one.value for one in node.keywords if one.arg == "exit_code")


def codes_of(code: ast.expr, module: str) -> Iterator[int]:
    """The numbers that an expression may be; AssertionError where it is none that this test understands."""
    if isinstance(code, ast.Constant) and isinstance(code.value, int):
        yield code.value
    elif isinstance(code, ast.IfExp):
        yield from codes_of(code.body, module)
        yield from codes_of(code.orelse, module)
    elif isinstance(code, ast.Name) and code.id.isupper():
        yield constant(module, code.id)
    elif ast.unparse(code) == "WalltimeError.exit_code":
        yield WalltimeError.exit_code
    else:
        assert ast.unparse(code) in PASSED_ON, f"{module}: exit code {ast.unparse(code)}"


def constant(module: str, name: str) -> int:
    """A constant of a module, or one that a function of it imports."""
    known = vars(importlib.import_module(module))
    if name in known:
        return int(known[name])
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text())
    (home,) = {
        node.module for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and any(one.name == name for one in node.names)
    }  # fmt: skip
    return int(vars(importlib.import_module(home))[name])


def test_every_code_that_the_program_ends_with_is_listed() -> None:
    used: dict[str, set[int]] = {}
    for path in sources():
        if path in OTHER_PROGRAMS:
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for code in exits_of(ast.parse(path.read_text())):
            used.setdefault(module, set()).update(codes_of(code, module))
    found = set().union(*used.values())
    assert {0, 1, 2, 3, 4} <= found <= LISTED, used


def test_every_error_s_code_is_listed() -> None:
    for path in sources():
        if "WalltimeError)" in path.read_text() or "InputError)" in path.read_text():
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    kinds = [WalltimeError]
    for kind in kinds:
        kinds += [one for one in kind.__subclasses__() if one not in kinds]
    codes = {kind.__name__: kind.exit_code for kind in kinds if kind.__module__.startswith(("flows", "pipeline"))}
    assert {"RunInProgressError", "BlockedVersionError"} <= set(codes)
    assert set(codes.values()) <= LISTED


def test_the_commands_it_names_exist_and_names_are_unique() -> None:
    commands = typer.main.get_command(application()).commands
    for one in EXIT_CODES:
        assert one.commands == "all" or {name.split()[0] for name in one.commands.split(", ")} <= set(commands)
    assert len({one.name for one in EXIT_CODES}) == len(EXIT_CODES)


def test_the_document_has_the_same_table() -> None:
    text = (ROOT / "docs" / "exit_codes.md").read_text()
    rows = [f"| {one.code} | {one.name} | {one.commands} | {one.meaning} |" for one in EXIT_CODES]
    assert text.splitlines()[-len(rows) :] == rows


def test_ctrl_c_ends_with_its_code_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.cli import main

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flows.services.published.browse.version_rows", stop)
    monkeypatch.setattr("sys.argv", ["walltime", "versions", "list", "--from", "."])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert "Traceback" not in capsys.readouterr().err and ended.value.code in LISTED
