"""Studies: datasets x methods x seeds -> rows.

A study is data (:class:`Study`): the tasks and one pure function that turns a task into a row.
:func:`run` computes the rows that a :class:`Store` does not hold yet, on as many processes as asked
for, and may be killed and started again at any time.

>>> from dcfw_studies import Store, Study, run
>>> def row(dataset, method, seed, *, power):
...     return {"value": len(dataset) ** power + seed}
>>> study = Study("lengths", row, ["ab", "abc"], ["only"], [0, 1], settings={"power": 2})
>>> with Store(":memory:") as store:
...     summary = run(study, store)
...     values = [record["value"] for record in store.rows(study)]
>>> summary.done, values
(4, [4, 5, 9, 10])
"""

from dcfw_studies.cluster import ClusterError
from dcfw_studies.runner import Summary, run
from dcfw_studies.store import Store, StoreError
from dcfw_studies.study import Study, Task, rng_for

__version__ = "0.2.0"

__all__ = ["ClusterError", "Store", "StoreError", "Study", "Summary", "Task", "rng_for", "run"]
