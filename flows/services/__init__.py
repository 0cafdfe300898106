"""What each command does, without a terminal: settings and paths in, tables and plain values out."""
