"""One module per command: its arguments and options for typer, and the calls that do and print its work."""
