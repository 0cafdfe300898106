"""Code that all rooms share: columns, tables, flags, reports, settings, the store, errors."""
