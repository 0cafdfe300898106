"""What every room shares and no room owns: columns, tables, flags, reports, settings, the store, errors."""
