"""The nightly look-up table: runtime quantiles for schedulers' hooks that can only look up."""
