"""Objects, remote functions and actors on weir's worker processes: what programs use of Ray beside its data."""
