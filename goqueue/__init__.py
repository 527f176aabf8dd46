"""goqueue: a durable message broker for Python teams."""

from goqueue.errors import GoQueueError
from goqueue.types import Priority

__version__ = "0.1.0"

__all__ = ["GoQueueError", "Priority", "__version__"]
