"""The parallel interface of joblib, imported if ``n_jobs`` requires it."""

from __future__ import annotations

try:
    from joblib import Parallel, delayed, effective_n_jobs
except ImportError as error:
    raise ImportError('n_jobs other than 1 needs joblib: pip install "dcfw[parallel]"') from error

__all__ = ["Parallel", "delayed", "effective_n_jobs"]
