"""The only folder that knows Prefect: its flows, its settings, its embedded server."""
