"""What surrounds the stages of pipeline/: the command line, Prefect, the clock and what people read.

which options has a command?    cli/commands, one file a command or a group of them
what does a command do?         services: settings and paths in, tables and plain values out
what does it print or draw?     pages: terminal, HTML, Markdown
how does it run under Prefect?  prefect: the only folder that imports Prefect
"""
