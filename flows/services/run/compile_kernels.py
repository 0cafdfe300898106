"""Compiles the kernels of a run ahead, on two processors, and leaves them in the cache."""

from collections.abc import Iterable, Iterator, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

import pyarrow as pa

from pipeline.run import STEPS, Run

FIRST = ("ingest", "clean", "templates", "group")
"""Steps that all others need."""

LEARNING = ("learn", "estimate")
"""Steps that need no table of the others but jobs; they compile for about as long as the others do."""


def compile_kernels(run: Run) -> Iterator[int]:
    """Yields how many steps are done, of len(STEPS). A process that fails ends early: see the last number.

    A kernel is compiled for the types that it is called with, so the steps are executed; their tables are dropped.
    """
    held: dict[str, pa.Table] = {}
    n_done = 0
    for n_done, _ in enumerate(_executed(FIRST, run, held), 1):
        yield n_done
    others = [step.name for step in STEPS if step.name not in FIRST + LEARNING]
    for n_more, _ in enumerate(_beside_one_another([LEARNING, others], run, held), 1):
        yield n_done + n_more


def _executed(names: Iterable[str], run: Run, held: dict[str, pa.Table]) -> Iterator[str]:
    for step in STEPS:
        if step.name in names:
            *tables, _ = step.call(run, *(held[name] for name in step.reads))
            held |= dict(zip(step.writes, tables, strict=True))
            yield step.name


def _beside_one_another(groups: Iterable[Iterable[str]], run: Run, held: Mapping[str, pa.Table]) -> Iterator[str]:
    # A forked process would inherit locks of threads that it does not have.
    processes = get_context("spawn")
    open_ends = []
    for names in groups:
        receiving, sending = processes.Pipe(duplex=False)
        processes.Process(target=_work, args=(tuple(names), run, dict(held), sending), daemon=True).start()
        sending.close()
        open_ends.append(receiving)
    while open_ends:
        for end in wait(open_ends):
            assert isinstance(end, Connection)  # nosec B101 # for the type checker
            try:
                yield end.recv()
            except EOFError:  # it is done, or has failed
                open_ends.remove(end)


def _work(names: tuple[str, ...], run: Run, held: dict[str, pa.Table], done: Connection) -> None:
    for name in _executed(names, run, held):
        done.send(name)
