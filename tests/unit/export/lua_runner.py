"""Runs the plug-in for Slurm in an interpreter of Lua, with a table `slurm` and jobs that stand for Slurm's."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.export.lua import Plain, lua

INTERPRETERS = tuple(name for name in ("lua5.1", "lua5.3", "lua5.4", "luajit") if shutil.which(name))
"""Slurm of Debian 12 links Lua 5.1, later ones 5.3 or 5.4."""

MISSING = "no lua5.1, lua5.3, lua5.4 or luajit on this machine (apt-get install lua5.3): the plug-in is not tested"

_MOCK = """
logged, NO_VAL, INFINITE = {}, 4294967294, 4294967295
local function log(level)
  return function(form, ...) logged[#logged + 1] = level .. ": " .. string.format(form, ...) end
end
slurm = { SUCCESS = 0, NO_VAL = NO_VAL, INFINITE = INFINITE, log_info = log("info"), log_error = log("error"),
  log_user = log("user") }
function shown(value)
  if value == nil then return "nil" end
  if type(value) == "number" then return ("%.12g"):format(value) end
  return (tostring(value):gsub("[^ -~]", function(c) return ("\\\\x%02x"):format(c:byte()) end))
end
"""


def run_lua(interpreter: str, script: str, folder: Path) -> list[str]:
    """The lines that a script prints; AssertionError where it fails."""
    path = folder / "script.lua"
    path.write_text(script, "utf-8", "surrogateescape")
    done = subprocess.run([interpreter, str(path)], check=False, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "replace").splitlines()


def with_locals(plugin: str, names: Sequence[str]) -> str:
    """The plug-in with some of its local functions made global, behind the mock of Slurm."""
    body = plugin.removesuffix("return slurm.SUCCESS\n")
    assert body != plugin
    return _MOCK + body + "".join(f"_G.{name} = {name}\n" for name in names)


def submitted(
    interpreter: str, plugin: str, jobs: Sequence[Mapping[str, Plain]], parts: Mapping[str, Plain], folder: Path,
    fields: Sequence[str] = ("time_limit", "admin_comment", "site_factor"), before: str = "",
) -> tuple[list[dict[str, str]], list[str]]:  # fmt: skip
    """The fields of each job after its submit, as text, and what was logged; `before`: Lua that runs before each."""
    shown = "..'\\t'..".join(f"shown(job[{lua(name)}])" for name in fields)
    script = with_locals(plugin, ()) + f"local parts = {lua(parts)}\n"
    script += f"for number, job in ipairs({lua(jobs)}) do\n{before}\n"
    script += f"assert(slurm_job_submit(job, parts, 1000) == 0); print({shown}) end\n"
    script += "for _, line in ipairs(logged) do print('LOG ' .. shown(line)) end\n"
    lines = run_lua(interpreter, script, folder)
    rows = [dict(zip(fields, line.split("\t"), strict=True)) for line in lines if not line.startswith("LOG ")]
    return rows, [line[4:] for line in lines if line.startswith("LOG ")]
