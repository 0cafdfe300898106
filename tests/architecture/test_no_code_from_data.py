"""No module makes code of data or asks a shell: no pickle, eval, exec, os.system, shell=True in pipeline and flows."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle", "yaml", "code",
    "codeop", "pty", "commands", "xml", "telnetlib", "ftplib",
}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__", "breakpoint", "input"}
OF_OS = {"system", "popen", "fork", "forkpty"}
OF_SUBPROCESS = {"getoutput", "getstatusoutput"}
ARGUMENTS = {"shell", "allow_pickle", "trust_remote_code"}


def faults(source: str) -> Iterator[str]:
    """What a module does of this, with the line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").partition(".")[0]}
            if node.module in ("os", "subprocess"):
                names |= {alias.name for alias in node.names} & (OF_OS | OF_SUBPROCESS)
        else:
            names = set()
        for name in sorted(names & (MODULES | OF_OS | OF_SUBPROCESS)):
            yield f"line {node.lineno}: imports {name}"  # type: ignore[attr-defined]
        if isinstance(node, ast.Call):
            yield from (f"line {node.lineno}: {one}" for one in called(node))


def called(node: ast.Call) -> Iterator[str]:
    """What a call does of this."""
    function = node.func
    if isinstance(function, ast.Name) and function.id in CALLS:
        yield function.id
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else ""
        is_process = function.attr.startswith(("exec", "spawn", "posix_spawn")) or function.attr in OF_OS
        if (owner == "os" and is_process) or (owner == "subprocess" and function.attr in OF_SUBPROCESS):
            yield f"{owner}.{function.attr}"
        if function.attr.startswith(("read_pickle", "to_pickle", "unsafe_load", "create_subprocess_shell")):
            yield function.attr
    for argument in node.keywords:
        is_off = isinstance(argument.value, ast.Constant) and not argument.value.value
        if argument.arg in ARGUMENTS and not is_off:
            yield f"{argument.arg}="


def test_no_module_makes_code_of_data() -> None:
    files = [path for room in ("pipeline", "flows", "walltime") for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(files) > 100
    found = [f"{path.relative_to(ROOT)}, {one}" for path in files for one in faults(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import loads", "import joblib.memory", "eval(x)", "def f():\n    exec(x)",
        "import os\nos.system(x)", "from os import system", "import os\nos.execvp(x, y)", "compile(x, '', 'exec')",
        "import subprocess\nsubprocess.run(x, shell=True)", "import subprocess\nsubprocess.Popen(x, shell=flag)",
        "import subprocess\nsubprocess.getoutput(x)", "import numpy as np\nnp.load(x, allow_pickle=True)",
        "import pandas as pd\npd.read_pickle(x)", "import yaml", "__import__(x)", "asyncio.create_subprocess_shell(x)",
    ],
)  # fmt: skip
def test_each_of_them_would_be_found(source: str) -> None:
    assert list(faults(source)) != []


def test_what_is_harmless_is_not_found() -> None:
    assert list(faults("import re, subprocess\nre.compile(x)\nsubprocess.run([x], shell=False)\nmodel.eval\n")) == []
