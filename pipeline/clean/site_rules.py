"""Applies the rules of the site: jobs that screens must keep, and jobs to set aside in any case."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools
from pipeline.core.clean_settings import SiteRule

_TEXTS = ("user", "account", "application", "queue")


def matched(arrays: JobArrays, rules: Sequence[SiteRule], burst_ids: pa.Array) -> list[Bools]:
    """Per rule, the jobs that match all its values; `burst_ids` holds one id (or null) per job."""
    return [_matches(arrays, rule, burst_ids) for rule in rules]


def _matches(arrays: JobArrays, rule: SiteRule, burst_ids: pa.Array) -> Bools:
    found = np.ones(arrays.jobs.num_rows, bool)
    for name in _TEXTS:
        if (wanted := getattr(rule, name)) is not None:
            found &= _equals(arrays.jobs.column(name), wanted)
    if rule.burst is not None:
        found &= _equals(burst_ids, rule.burst)
    if rule.since is not None:
        found &= arrays.submit_s >= epoch_s(rule.since, arrays.site.timezone)
    if rule.until is not None:
        found &= arrays.submit_s < epoch_s(rule.until, arrays.site.timezone)
    return found


def _equals(column: pa.Array | pa.ChunkedArray, wanted: str) -> Bools:
    same = pc.fill_null(pc.equal(column.cast(pa.string()), wanted), False)
    found: Bools = np.asarray(same)
    return found


def epoch_s(when: datetime, zone: str) -> float:
    """An instant in s since 1970; a time without a zone is in the given zone."""
    return (when if when.tzinfo else when.replace(tzinfo=ZoneInfo(zone))).timestamp()
