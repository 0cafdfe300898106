"""The schedulers and programs that exports are written for. A new one is a file and a line here."""

from pipeline.export.csv_table import csv_files
from pipeline.export.published_tables import Writer
from pipeline.export.slurm import slurm_files

WRITERS: dict[str, Writer] = {
    "csv": csv_files,
    "slurm": slurm_files,
}
