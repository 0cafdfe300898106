"""What the runs of this folder import, imported once; Prefect comes after flows, which sets its defaults."""

import flows.cli.typer_app
import flows.pages.terminal.render_run
import flows.prefect.nightly
import flows.services.run.plain_run  # noqa: F401
