"""The applications of job names that only the log tells: of a site's own rules, and of names in other alphabets."""

from collections import Counter

import pyarrow as pa

from pipeline.core.applications import application_of


def known_applications(jobs: pa.Table) -> dict[str, str]:
    """The application of each job name, where the built-in rules would not find it in every plug-in.

    These are names to which a rule of the site gave an application, and names with letters beyond ASCII, to which Lua's
    patterns cannot be applied. Of several applications of one name the most frequent is taken. In order of name.

    Parameters
    ----------
    jobs : pa.Table
        JOBS, of which job_name and application are read.

    Returns
    -------
    dict of str to str
        Application by job name; empty where the log has no names.

    Examples
    --------
    >>> known_applications(tables["jobs"])
    {}
    """
    pairs = pa.table({name: jobs.column(name).cast(pa.string()) for name in ("job_name", "application")})
    counts = pairs.drop_null().group_by(["job_name", "application"]).aggregate([([], "count_all")])
    found: dict[str, Counter[str]] = {}
    for row in counts.to_pylist():
        found.setdefault(row["job_name"], Counter())[row["application"]] = row["count_all"]
    chosen = {name: min(of, key=lambda one: (-of[one], one)) for name, of in sorted(found.items())}
    return {name: one for name, one in chosen.items() if not name.isascii() or application_of(name) != one}
