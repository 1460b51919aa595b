"""The parts of :func:`dcfw.qap.match`: inputs, paths through sparse graphs, candidates, batches, pictures."""
