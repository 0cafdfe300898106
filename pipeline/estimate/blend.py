"""One estimate of several, by their recent errors for the user and for everybody."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel
from pipeline.estimate.past import Past


@entry_kernel
def blended(
    past: Past, burst: Ints, told_s: Floats, power: float, trust_jobs: float, user_s: float, global_s: float
) -> Floats:
    """(jobs,) weighted mean, s, of (jobs, methods) estimates without gaps, as of every submit.

    A method's weight is 1 / (its error over the methods' mean error)^power. Errors are summed in seconds, with the
    half-lives `user_s` and `global_s`; everybody's count as `trust_jobs` jobs of the user's. The k-th job of a burst
    counts 1 / sqrt(k): a burst is one event more than it is many.
    """
    n, n_methods = told_s.shape
    n_users = past.user.max() + 1 if n else 0
    error, known, at_s = np.zeros((n_users, n_methods)), np.zeros(n_users), np.zeros(n_users)
    last_burst, n_burst = np.full(n_users, -1), np.zeros(n_users)
    all_error, all_at_s, n_over = np.full(n_methods, 1e-9), 0.0, 0
    found, ratio = np.empty(n), np.empty(n_methods)
    for job in range(n):
        while n_over < past.ended[job]:
            over = past.by_end[n_over]
            n_over += 1
            end_s, user = past.end_s[over], past.user[over]
            off_s = np.abs(told_s[over] - past.runtime_s[over])
            all_error *= 0.5 ** ((end_s - all_at_s) / global_s)
            all_error += off_s
            all_at_s = end_s
            if user < 0:
                continue
            n_burst[user] = n_burst[user] + 1 if burst[over] == last_burst[user] else 1
            last_burst[user] = burst[over]
            weight, kept = 1 / np.sqrt(n_burst[user]), 0.5 ** ((end_s - at_s[user]) / user_s)
            error[user] = error[user] * kept + weight * off_s
            known[user] = known[user] * kept + weight
            at_s[user] = end_s
        ratio[:] = all_error / all_error.mean()
        user = past.user[job]
        if user >= 0 and known[user] > 0:
            own = error[user] / max(error[user].mean(), 1e-9)
            ratio[:] = (own * known[user] + ratio * trust_jobs) / (known[user] + trust_jobs)
        weights = np.maximum(ratio, 1e-3) ** -power
        found[job] = (weights * told_s[job]).sum() / weights.sum()
    return found
