"""The Python processes that Spark keeps for its tasks, and for planning, one after the other.

After each of them Spark has such a process look for garbage among all of its objects. Most of these came with
modules (PySpark's, Arrow's, ours) and stay for good: 50 milliseconds to look at, for tasks of 200.
"""

import gc
import sys
from itertools import count

FIRST_TASKS = 3
"""By then all modules are there: some are imported only when the first rows are sent."""

_tasks = count()


def in_task() -> None:
    """Called first in each. What is there by the first ones is not looked at again; a few milliseconds are left."""
    if _is_sparks_own() and next(_tasks) < FIRST_TASKS:
        gc.collect()
        gc.freeze()


def _is_sparks_own() -> bool:
    """And not a program's, whose garbage is its own business."""
    started_as = getattr(sys.modules["__main__"], "__spec__", None)
    return started_as is not None and started_as.name == "pyspark.daemon"
