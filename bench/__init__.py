"""Speed benchmarks: dcfw against the best peer, one line per comparison (``python -m bench core``)."""
