"""Methods that the estimator is compared with: as-of passes over a whole log, which keep no State."""
