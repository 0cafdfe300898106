"""What `walltime quarantine` prints; the text of unreadable records is escaped."""

from typing import Any

from flows.pages.terminal.render import console, grid, number, say


def print_quarantine(found: dict[str, Any]) -> None:
    """Print counts by reason, then the records."""
    out = console()
    if not found["reasons"]:
        out.print("Every record could be read.")
        return
    out.print(grid("", ("reason", "records"), [(say(name), number(n)) for name, n in found["reasons"].items()]))
    for row in found["records"]:
        where = f"{say(row['source_file'], 500)}, line {row['source_line']}, byte {row['byte_offset']:.0f}"
        out.print(f"{where}: {say(row['reason'])}: '{say(row['raw'], 200)}'", soft_wrap=True)
