"""What the commands on phases do: a trace in, phases, a plan, times and a prediction out, in one folder."""
