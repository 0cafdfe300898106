"""`walltime query`, when its options are read: which question they ask, and who prints the answer."""

import sys
from pathlib import Path

from flows.pages.terminal.json_out import print_json, print_lines
from pipeline.core.errors import InputError
from pipeline.core.text import printable


def ask(
    published: Path = Path("out"), *, batch: Path | None = None, out: Path | None = None, key_file: Path | None = None,
    json: bool = False, memory: str | None = None, mem_per_cpu: str | None = None, procs: int | None = None,
    **texts: str | None,
) -> None:  # fmt: skip
    """Answer one job or a file of them on stdout; `texts` are the job's other options by name, None where not given."""
    said = texts | {"memory": memory, "mem_per_cpu": mem_per_cpu, "procs": None if procs is None else str(procs)}
    given = {name: text for name, text in said.items() if text is not None}
    if memory is not None and mem_per_cpu is not None:
        raise InputError("--memory", "--mem-per-cpu beside it", "one of the two")
    if batch is not None and given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError("--batch", f"{named} beside it", "these as columns of the file")
    if batch is None and out is not None:
        raise InputError("--out", "no --batch beside it", "a file of jobs")
    if batch is None:
        _one(published, given, key_file, as_json=json)
    else:
        _many(published, batch, out, key_file, as_json=json)


def _one(published: Path, given: dict[str, str], key_file: Path | None, *, as_json: bool) -> None:
    from flows.services.query.answers import answer
    from flows.services.query.batch import job_of

    found = answer(published, job_of(given), key_file)
    if as_json:
        print_json(found)
        return
    from flows.pages.terminal.render_query import print_answer

    print_answer(found)


def _many(published: Path, batch: Path, out: Path | None, key_file: Path | None, *, as_json: bool) -> None:
    from flows.services.files.table_files import check_suffix
    from flows.services.query.answer_file import write_rows
    from flows.services.query.answers import answers, facts_of, held_in
    from flows.services.query.batch import account_of, read_jobs, rows_of

    if out is not None:
        check_suffix(out)
    asked = read_jobs(batch)
    held = held_in(published, len(asked.jobs))
    rows = rows_of(asked, answers(held, asked.jobs, key_file))
    if out is not None:
        write_rows(out, rows)
    # With --json stdout holds the answers and nothing else.
    said = f"{account_of(asked)} of {printable(str(batch), 1000)}"
    if out is not None:
        print(f"Wrote the answers to {said} to {printable(str(out), 1000)}", file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print_lines(rows)
    elif out is None:
        from flows.pages.terminal.render_query import print_rows

        print_rows(rows, facts_of(held), said)
