"""What `walltime learn` does: runs in, a model out."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from flows.services.inputs.declared_inputs import InputOptions, declaration_of
from flows.services.inputs.processor_formula import with_processors
from flows.services.inputs.runs_csv import read_runs
from pipeline.core.input_settings import InputSettings
from pipeline.inputs import InputModel, learn


@dataclass(frozen=True, slots=True)
class LearntModel:
    """A model and the runs it learnt from."""

    model: InputModel
    runs: pa.Table


def learn_from_csv(path: Path, options: InputOptions, settings: InputSettings) -> LearntModel:
    """A model of the runs of a CSV file; InputError where the file or an option cannot be used."""
    runs = read_runs(path)
    declaration = declaration_of(runs, options)
    runs = with_processors(runs, declaration)
    return LearntModel(learn(runs, declaration, settings), runs)
