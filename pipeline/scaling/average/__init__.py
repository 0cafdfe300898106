"""The model average over the laws' shapes: a runtime with quantiles at any processor count."""
