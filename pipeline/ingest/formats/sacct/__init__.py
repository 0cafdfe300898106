"""Slurm's accounting: text dumps of `sacct`, `sacct --json`, and the site's own `sacct` command."""
