"""What a person reads: tables on a terminal, pages of HTML, Markdown for Prefect."""
