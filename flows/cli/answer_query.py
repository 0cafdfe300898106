"""`walltime query` once its options are read: which question they ask, and who prints the answer."""

import sys
from pathlib import Path

from flows.pages.terminal.json_out import print_json, print_json_lines
from pipeline.core.errors import InputError
from pipeline.core.text import printable


def answer_query(
    published: Path | None = None, *, batch: Path | None = None, out: Path | None = None, key_file: Path | None = None,
    json: bool = False, memory: str | None = None, mem_per_cpu: str | None = None, procs: int | None = None,
    as_of: str | None = None, platform: str | None = None,
    **texts: str | None,
) -> None:  # fmt: skip
    """Answer one job or a file of jobs on stdout.

    Without `published` the default folder is read; `as_of` chooses an earlier version of its tables, and `platform`
    predictions for another machine. `texts` are the job's other options by name, None where not given. InputError for
    options that exclude each other.
    """
    options = texts | {"memory": memory, "mem_per_cpu": mem_per_cpu, "procs": None if procs is None else str(procs)}
    given = {name: text for name, text in options.items() if text is not None}
    from flows.services.published.published_folder import published_folder

    if platform is not None:
        others: dict[str, object] = dict(given)
        others |= {name: value for name, value in (("batch", batch), ("as_of", as_of)) if value is not None}
        _answer_platform(published_folder(published), platform, others, as_json=json)
        return
    if memory is not None and mem_per_cpu is not None:
        raise InputError("--memory", "--mem-per-cpu beside it", "one of the two")
    if batch is not None and given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError("--batch", f"{named} beside it", "these as columns of the file")
    if batch is None and out is not None:
        raise InputError("--out", "no --batch beside it", "a file of jobs")
    folder = published_folder(published)
    if batch is None:
        _answer_one(folder, given, key_file, as_of, as_json=json)
    else:
        _answer_batch(folder, batch, out, key_file, as_of, as_json=json)


# Modules are imported once the options are known to be right, and rich only where a table is printed.


def _answer_platform(published: Path, platform: str, given: dict[str, object], *, as_json: bool) -> None:
    from flows.services.phases.platforms import platform_answer

    procs, application = given.pop("procs", None), given.pop("application", None)
    if given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError("--platform", f"{named} beside it", "at most --application and --procs")
    label = None if application is None else str(application)
    answered = platform_answer(published, platform, label, None if procs is None else int(str(procs)))
    if as_json:
        print_json(answered)
        return
    from flows.pages.terminal.render_phases import print_platform_answer

    print_platform_answer(answered)


def _answer_one(
    published: Path, given: dict[str, str], key_file: Path | None, as_of: str | None, *, as_json: bool
) -> None:
    from flows.services.quantities import as_of_seconds
    from flows.services.query.answers import answer
    from flows.services.query.batch import job_of

    found = answer(published, job_of(given), key_file, as_of_seconds(as_of))
    if as_json:
        print_json(found)
        return
    from flows.pages.terminal.render_query import print_answer

    print_answer(found)


def _answer_batch(
    published: Path, path: Path, out: Path | None, key_file: Path | None, as_of: str | None, *, as_json: bool
) -> None:
    from flows.services.files.table_files import check_suffix
    from flows.services.quantities import as_of_seconds
    from flows.services.query.answer_file import write_rows
    from flows.services.query.answers import answering_state, answers, facts_of
    from flows.services.query.batch import answer_rows, describe_batch, read_batch
    from pipeline.publish import reading

    if out is not None:
        check_suffix(out)
    batch = read_batch(path)
    as_of_s = as_of_seconds(as_of)
    with reading(published, as_of_s) as manifest:
        loaded = answering_state(manifest, len(batch.jobs), as_of_s)
        rows = answer_rows(batch, answers(loaded, batch.jobs, key_file))
    if out is not None:
        write_rows(out, rows)
    described = f"{describe_batch(batch)} of {printable(str(path), 1000)}"
    if out is not None:
        # With --json stdout holds nothing but the answers.
        stream = sys.stderr if as_json else sys.stdout
        print(f"Wrote the answers to {described} to {printable(str(out), 1000)}", file=stream)
    if as_json:
        print_json_lines(rows)
    elif out is None:
        from flows.pages.terminal.render_query import print_rows

        print_rows(rows, facts_of(loaded), described)
