"""Writes the reference pages from the code: `python -m docs.tools.reference`; with `--check` it only compares.

A test compares them too, so that a new command, setting, column, flag, law, method or exit code is in its page.
"""

import sys
from pathlib import Path

from docs.tools import reference_commands, reference_tables

DOCS = Path(__file__).resolve().parents[1]

PAGES = {
    "reference/cli.md": reference_commands.commands,
    "reference/columns.md": reference_tables.columns,
    "reference/flags.md": reference_tables.flags,
    "reference/laws.md": reference_tables.laws,
    "reference/methods.md": reference_tables.methods,
    "reference/library.md": reference_tables.functions,
    "exit_codes.md": reference_commands.exit_codes,
}
"""Every generated page, by its path under docs/, and the function that returns its text."""


def differing() -> list[str]:
    """The generated pages whose file is absent or has another text."""
    paths = {name: DOCS / name for name in PAGES}
    return [name for name, make in PAGES.items() if not paths[name].exists() or paths[name].read_text() != make()]


def main(arguments: list[str]) -> int:
    """Write every page; with --check exit code 1 where one differs."""
    names = differing()
    for name in names:
        sys.stdout.write(f"{'differs' if arguments else 'written'}: docs/{name}\n")
        if not arguments:
            (DOCS / name).write_text(PAGES[name]())
    return int(bool(arguments and names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
