"""The Python processes that Spark keeps for its tasks, and for planning, one after the other.

After each task Spark runs a garbage collection over all objects of such a process. Most of these came with modules
(PySpark's, Arrow's, ours) and stay for good: 50 milliseconds of collection, for tasks of 200.
"""

import gc
import sys
from itertools import count

FIRST_TASKS = 3
"""After this number of tasks all modules are imported: some only when the first rows are sent."""

_tasks = count()


def in_task() -> None:
    """Called first in each task. Objects of the first tasks are excluded from later collections."""
    if _is_sparks_own() and next(_tasks) < FIRST_TASKS:
        gc.collect()
        gc.freeze()


def _is_sparks_own() -> bool:
    """False in a program's own process, which manages its garbage itself."""
    started_as = getattr(sys.modules["__main__"], "__spec__", None)
    return started_as is not None and started_as.name == "pyspark.daemon"
