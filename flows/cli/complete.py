"""What the shell's completion offers beside commands, options and files."""


def complete_table(incomplete: str) -> list[str]:
    """The names of tables that begin as the word does."""
    from pipeline.core.tables import TABLES

    return [name for name in TABLES if name.startswith(incomplete)]
