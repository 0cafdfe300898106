"""Walltime's library: accounting logs in, tables of runtime predictions out.

    raw logs -> ingest -> JOBS -> clean -> group -> OBSERVATIONS -> fit -> FITS -> predict -> PREDICTIONS,
                                                                             SCALABILITY, ESTIMATES -> publish

Where do I go to ...
    see the whole program on one screen?        pipeline/run.py
    learn what a column means?                  pipeline/core/columns.py (and `walltime columns`)
    add a log format?                           pipeline/ingest/formats/: one file, one line in registry.py
    add a reason to set jobs aside?             pipeline/core/flags.py, pipeline/clean/: one mask, one line in RULES
    change what "similar" means?                [group] template in the config; pipeline/group/
    add a scaling law?                          pipeline/laws/forms/: one file
    change an interval?                         pipeline/predict/intervals.py
    see how a long log fits into memory?        pipeline/core/stored_table.py, group_parts.py; pipeline/clean/blocks.py
    find who writes files?                      pipeline/core/store.py (Parquet), pipeline/publish/ (versions, manifest)
    see which versions stay on disk?            pipeline/publish/retention.py
    answer for one job?                         pipeline/estimate/walltime.py (flows/services/query/answers.py asks)
    hand estimates to a scheduler?              pipeline/export/: one file, one line in registry.py
    see how good estimates are?                 pipeline/evaluate/ (backtest.py, and leaks.py against looking ahead)
    predict a run on another machine?           pipeline/phases/ (from a trace of its MPI calls)
    replay a log under a policy?                pipeline/evaluate/replay/engine.py (compared: what_if.py, cases.py)
    learn runtimes over a run's inputs?         pipeline/inputs/: one file in methods/, one line in registry.py
    learn them from a log's job names?          pipeline/inputs/of_logs/ (rules: ingest/assemble/read_inputs.py)
    run it under Prefect?                       flows/prefect/nightly.py

Rooms do not import one another; they meet in the tables of core/tables.py. evaluate/
stands above them, as run.py does. Words are defined in CONTRIBUTING.md.
"""
