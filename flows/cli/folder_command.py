"""Commands whose first argument is DIR, which may be left out, as in `walltime show predictions`."""

from pathlib import Path
from typing import Any

from typer.core import TyperCommand


class FolderCommand(TyperCommand):
    """A command that reads published tables: where its words name no folder, the default one is put before them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        if not ctx.resilient_parsing and self._lacks_folder(ctx, args):
            from flows.services.published.published_folder import published_folder

            args = [str(published_folder(None)), *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def _lacks_folder(self, ctx: Any, args: list[str]) -> bool:
        found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        arguments = [one for one in self.params if one.param_type_name == "argument"]
        given = [text for one in arguments if isinstance(text := found.get(one.name), str)]
        n_needed = sum(one.required for one in arguments[1:])
        if len(given) == len(arguments) or (given and _is_path(given[0])):
            return False
        # After a folder all arguments that are needed follow; a name in its place is that of a table, maybe mistyped.
        return len(given) == n_needed or (n_needed == 0 and _is_like_a_table(given[0]))


def _is_path(text: str) -> bool:
    return "/" in text or Path(text).exists()


def _is_like_a_table(name: str) -> bool:
    from pipeline.core.tables import TABLES
    from pipeline.core.text import did_you_mean

    return bool(did_you_mean(name, TABLES))
