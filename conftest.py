"""Point DCFW_DATA at the shared real data when they lie beside the repository and it is not set.

Hypothesis has no deadline here: a busy machine is not a defect.  Every change tries 25 examples of each
property; ``pytest --hypothesis-profile=nightly`` tries 300.
"""

import os
import signal
from pathlib import Path

from hypothesis import settings

settings.register_profile("dcfw", deadline=None, max_examples=25)
settings.register_profile("nightly", deadline=None, max_examples=300)
settings.load_profile("dcfw")

# A shell that starts a job in the background has it ignore Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_shared = Path(__file__).resolve().parents[1] / "shared" / "data"
if "DCFW_DATA" not in os.environ and _shared.is_dir():
    os.environ["DCFW_DATA"] = str(_shared)
