"""Derives application names from job names, so that `relax_0017.sh` and `Relax-2024-05-01` are one application.

Each rule is a pattern and its replacement. Rules apply in order to the case-folded name, cut at MAX_CHARACTERS. No
pattern has nested repetition, so that the time is at most quadratic in that length.
"""

import re

MAX_CHARACTERS = 256

_WORD_START, _WORD_END = r"(?<![^\W_])", r"(?![^\W_])"
_COUNTED = (
    r"n|np|p|ppn|tpn|t|c|x|k|nodes?|cores?|cpus?|tasks?|procs?|ranks?|threads?|gpus?|size|seed|iter|iteration|step|"
    r"part|rep|trial|fold|chunk|batch|frame|rank|array|idx|index|id|no|nr|v|ver|version|run|job|test|case|sample|set"
)
_UNITS = (
    r"n|np|p|c|t|x|nodes?|cores?|cpus?|tasks?|procs?|ranks?|threads?|gpus?|kb?|mb?|gb?|tb?|[kmgt]ib|"
    r"fs|ps|ns|us|ms|s|sec|m|min|h|hrs?|hours?|days?|atoms|steps"
)

RULES = {
    # /home/ada/runs/relax -> relax; ./a.out -> a.out; ~ada/x/y.sh -> y.sh
    "folder": (r"^.*/(?=[^/])", ""),
    # relax.sh -> relax; a.out -> a; train.py -> train
    "suffix": (
        r"\.(?:sh|bash|csh|tcsh|slurm|sbatch|srun|job|pbs|qsub|sub|lsf|py|pl|r|m|jl|lua|exe|out|bin|x|cmd|bat|inp|in|"
        r"com|gjf|nf|smk|ipynb|txt|log|cfg|conf|json|ya?ml|run|script)$",
        "",
    ),
    # nf-123e4567-e89b-12d3-a456-426614174000 -> nf-
    "uuid": (_WORD_START + r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}" + _WORD_END, " "),
    # post-2024-05-01 -> post- ; post_20240501t1230 -> post_ ; p.20240501_123059.x -> p. .x
    "date": (
        r"(?<!\d)(?:19|20)\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])"
        r"(?:[t_.-]?[012]\d[:.h_-]?[0-5]\d(?:[:.m_-]?[0-5]\d)?)?(?!\d)",
        " ",
    ),
    # sweep[0-99%4] -> sweep ; sweep(12) -> sweep
    "array": (r"[\[(]\d[\d,:%-]*[\])]", " "),
    # build-3f2a9c1d -> build- ; e_0a1b2c3d4e_x -> e_ _x
    "hash": (_WORD_START + r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}" + _WORD_END, " "),
    # step12of50 -> step
    "part": (r"\d+of\d+" + _WORD_END, " "),
    # 001relax ->  relax; mol017opt -> mol opt; namd2b and h2o stay: no count, size or version begins with a zero
    "padded": (r"(?<!\d)0\d+(?=[^\W\d_])", " "),
    # fem_n8 -> fem_ ; fem-np=16 -> fem- ; cfd.seed_7.b -> cfd. .b
    "counted": (r"(?<=[\W_])(?:" + _COUNTED + r")[-_=.:]?\d+" + _WORD_END, " "),
    # fem_64cores -> fem_ ; md-10ns -> md- ; sort_32gb -> sort_
    "measured": (r"(?<=[\W_])\d+(?:\.\d+)?(?:" + _UNITS + r")" + _WORD_END, " "),
    # heat_128x128x64 -> heat_ ; 4x4-heat ->  -heat
    "grid": (_WORD_START + r"\d+(?:x\d+)+" + _WORD_END, " "),
    # namd2 -> namd ; lammps 0.17 -> lammps  . ; cg.b.16 -> cg.b. ; 42 ->
    "number": (r"\d+" + _WORD_END, " "),
    # a  b__c -> a-b-c; x.-+y -> x-y; größe_m -> größe-m; a|b\nc -> a-b-c
    "separator": (r"[\W_]+", "-"),
}
"""By name the pattern and what replaces a match, in order of application. Names that a site uses belong in
ingest.application_rules."""

_COMPILED = tuple((re.compile(find), gives) for find, gives in RULES.values())


def application_of(job_name: str) -> str | None:
    """The application name of a job name; None where only numbers and separators remain."""
    name = job_name[:MAX_CHARACTERS].casefold().strip()
    for find, gives in _COMPILED:
        name = find.sub(gives, name)
    return name.strip("-") or None
