"""Processors of a run as a formula of its inputs, as in P*Q, where no column holds them."""

import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.inputs import Declaration
from pipeline.inputs.formula import evaluate, names_in, parse
from pipeline.inputs.raw_inputs import numbers_of


def with_processors(table: pa.Table, declaration: Declaration) -> pa.Table:
    """The table with a column of processors; a name that is no column is read as a formula of columns."""
    wanted = declaration.procs
    if wanted is None or wanted in table.column_names:
        return table
    node = parse(wanted)
    missing = sorted(names_in(node) - set(table.column_names))
    if missing:
        found = f"no column {printable(missing[0], 60)}"
        raise InputError(f"processors {printable(wanted, 60)}", found, f"columns as {', '.join(table.column_names)}")
    values = evaluate(node, {name: numbers_of(table, name) for name in names_in(node)}, table.num_rows)
    return table.append_column(wanted, pa.array(values, pa.float64(), from_pandas=True))
