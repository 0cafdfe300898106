"""`walltime exit-codes`: the exit codes of all commands."""

from flows.cli.options import Json


def exit_codes(json: Json = False) -> None:
    """List the exit codes of all commands, with what each means."""
    from dataclasses import asdict

    from flows.cli.exits import EXIT_CODES
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, grid, say

    rows = [asdict(one) for one in EXIT_CODES]
    if json:
        print_json({"exit_codes": rows})
        return
    cells = [[say(value, 500) for value in row.values()] for row in rows]
    console().print(grid("Exit codes", ("code", "name", "commands", "meaning"), cells, texts=4))
