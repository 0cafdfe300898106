"""`python -m flows.cli`, the same as the command `walltime`."""

from flows.cli import main

# A process of a pool imports this module again.
if __name__ == "__main__":
    main()
