"""Smith's templates and the search for a log's own: a method that the estimator is compared with."""
