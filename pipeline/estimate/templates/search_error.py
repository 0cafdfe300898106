"""The training period of a search, and the error a set of templates makes on it, as of every submit."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.estimate.history import History
from pipeline.estimate.submits import capped
from pipeline.estimate.templates.category_windows import error_with, narrow_down
from pipeline.estimate.templates.smith import KEYS, Sight, Template, predict

CACHE_BYTES = 256 * 2**20

Values = tuple[Floats, Floats]


def training(history: History, until_s: float) -> History:
    """The jobs submitted before `until_s`; the runtime of one that had not ended by then is NaN, its end infinite."""
    known = history.known_by(until_s)
    return known.take(np.arange(np.searchsorted(known.submit_s, until_s, side="left")))


class Errors:
    """Mean absolute errors of sets of templates over the training period's ended jobs; safe for several threads.

    The estimate of a job without an answering template is its request, or 0 s without a request.
    """

    def __init__(self, history: History, until_s: float) -> None:
        trained = training(history, until_s)
        if (trained.submit_s >= until_s).any() or not np.isnan(trained.runtime_s[trained.end_s > until_s]).all():
            raise AssertionError("a job or a runtime from after the training period")
        self.sight = Sight(trained)
        self._scored = np.flatnonzero(~np.isnan(trained.runtime_s))
        self._runtime_s = trained.runtime_s[self._scored]
        requested_s = trained.requested_s[self._scored]
        self._request_s = np.where(requested_s > 0, requested_s, 0.0)
        self._held: OrderedDict[Template, Values] = OrderedDict()
        self._lock = Lock()
        for name in KEYS:  # before threads share them
            self.sight.key(name)

    def __len__(self) -> int:
        """How many jobs are scored."""
        return len(self._scored)

    def mean_s(self, templates: Sequence[Template]) -> float:
        """The set's mean absolute error, s."""
        *others, last = templates
        return self.with_one_more_s(self.narrowest(others), last)

    def narrowest(self, templates: Sequence[Template]) -> Values:
        """Per scored job the narrowest template's value and its width, s; infinite where none answers."""
        best_value_s, best_width_s = np.zeros(len(self)), np.full(len(self), np.inf)
        for template in templates:
            narrow_down(*self._values(template), best_value_s, best_width_s)
        return best_value_s, best_width_s

    def with_one_more_s(self, best: Values, template: Template) -> float:
        """The mean absolute error once this template is added to those that gave `best`, s."""
        total_s: float = error_with(*self._values(template), *best, self._runtime_s, self._request_s)
        return total_s / max(len(self), 1)

    def _values(self, template: Template) -> Values:
        with self._lock:
            if template in self._held:
                self._held.move_to_end(template)
                return self._held[template]
        quantiles_s, width_s = predict(self.sight, template)
        made = capped(quantiles_s[self._scored, 1], self._request_s), width_s[self._scored]
        with self._lock:
            self._held[template] = made
            while len(self._held) * 16 * max(len(self), 1) > CACHE_BYTES and len(self._held) > 1:
                self._held.popitem(last=False)
        return made
