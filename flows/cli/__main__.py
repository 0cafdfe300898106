"""`python -m flows.cli`, the same as the command `walltime`."""

from flows.cli import main

main()
