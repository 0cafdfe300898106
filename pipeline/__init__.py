"""Walltime's library: accounting logs in, tables of runtime predictions out.

    raw logs -> ingest -> JOBS -> clean -> group -> OBSERVATIONS -> scaling -> FITS, PREDICTIONS, SCALABILITY -> publish
                                             +-> estimate -> STATE, ESTIMATES -------------------------------------^

Where do I go to ...
    see the whole program on one screen?        run.py
    learn what a column means?                  columns.tsv, tables.py (and `walltime show --columns`)
    change what a site sets?                    settings.py, and configs/all.toml
    add a log format?                           ingest/formats/, and a line in ingest/reader.py
    add a reason to set jobs aside?             schema.py, and one mask in clean/ with a line in RULES of clean/stage.py
    change what "similar" means?                [group] template in the config; group/
    add a scaling law?                          laws.py: one declaration, one name in LAWS
    change an interval?                         estimate/answer.py (one job), scaling/group_runs.py (a kind)
    see how a long log fits into memory?        large_tables.py
    see how arrays become a table?              arrays.py
    find who writes files?                      storage.py (Parquet), publish/ (store, versions, manifest, mirror)
    see which versions stay on disk?            publish/versions.py
    answer for one job?                         estimate/answer.py (flows/services/job_answers.py asks)
    hand estimates to a scheduler?              export/scheduler_files.py
    see how good estimates are?                 evaluate/ (backtest.py, and methods.py against looking ahead)
    replay a log under a policy?                schedule/engine.py (compared: what_if.py)
    predict a run on another machine?           phases/ (from a trace of its MPI calls)
    learn runtimes over a run's inputs?         inputs/: learning.py tells the steps
    run it under Prefect?                       flows/prefect/nightly.py

Rooms do not import one another; they meet in the tables of tables.py. evaluate/ and schedule/ stand above them, as
run.py does. Words are defined in docs/glossary.md, and docs/where-do-i-go.md lists common changes.
"""

import hashlib
from functools import cache
from pathlib import Path

RELEASE = "0.2.0"


@cache
def code_version() -> str:
    """The release and 12 hex digits of a hash of the library's sources, so that any change of code changes it."""
    root = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    sources = [*root.rglob("*.py"), *root.rglob("*.tsv")]
    for source in sorted(sources, key=lambda p: p.relative_to(root).as_posix()):
        digest.update(source.relative_to(root).as_posix().encode())
        digest.update(source.read_bytes())
    return f"{RELEASE}+{digest.hexdigest()[:12]}"
