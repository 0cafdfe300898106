"""Readers of MPI traces: each gives the table MPI_CALLS and a Report."""
