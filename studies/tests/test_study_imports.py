"""To list the studies costs nothing."""

import os
import subprocess
import sys

from places import SOURCE

HEAVY = ("numba", "torch", "matplotlib", "pandas", "rich", "scipy.optimize")


def loaded(code, names):
    """Return which of ``names`` are loaded after ``code`` in a fresh interpreter."""
    code = f"{code}\nimport sys\nprint(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_catalogue_of_studies_loads_no_study():
    code = "from dcfw_studies.catalogue import CATALOGUE"
    assert loaded(code, (*HEAVY, "joblib", "distributed", "dcfw_studies.qap", "sklearn")) == []
