"""The Python processes in which Spark's tasks run, one after the other.

After each task Spark has such a process look for garbage among all of its objects. Most of them came with modules
(PySpark's, Arrow's, ours) and stay for good: 50 milliseconds to look at, for tasks of 200.
"""

import gc
from itertools import count

from pyspark import TaskContext

FIRST_TASKS = 3
"""By then all modules are there: some are imported only when the first rows are sent."""

_tasks = count()


def in_task() -> None:
    """Called first in each. What is there by the first ones is not looked at again; a few milliseconds are left."""
    if TaskContext.get() is not None and next(_tasks) < FIRST_TASKS:
        gc.collect()
        gc.freeze()
