"""
Align two sets of vectors with missing entries
==============================================

800 words have vectors in two spaces that differ by a rotation.  Only a fifth of the entries of the target
vectors is known.  Requires ``pip install ".[sklearn,plots]"``.
"""

import numpy as np

from dcfw import align

rng = np.random.default_rng(0)
source = rng.standard_normal((800, 30))
rotation = np.linalg.qr(rng.standard_normal((30, 30)))[0]
whole = source @ rotation.T + 0.2 * rng.standard_normal((800, 30))
target = np.where(rng.random(whole.shape) < 0.2, whole, np.nan)
print(f"{np.isnan(target).mean():.0%} of the target is missing")

# %%
# The estimator follows scikit-learn's conventions: rows are words, missing entries are NaN.
model = align.MaskedProcrustes().fit(source, target)
error = np.linalg.norm(model.rotation_ - rotation) / np.linalg.norm(rotation)
print(f"the rotation is found up to {error:.1%}; mean cosine {model.score(source, whole):.3f}")

# %%
# The underlying function is :func:`dcfw.align.align`, where words are columns.  Singular values of 1 mean
# that the solution of the relaxed problem is a rotation already; residuals show words that do not fit.
res = align.align(source.T, target.T)
res.plot(E1=source.T, Y=target.T)

# %%
# Fill in the missing entries:
filled = np.where(np.isnan(target), model.transform(source), target)
print(
    "root mean square error of the filled entries:", round(float(np.sqrt(np.mean((filled - whole) ** 2))), 3)
)
