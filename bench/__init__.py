"""Speed benches: ours against the best peer, one line per comparison (``python -m bench core``)."""
