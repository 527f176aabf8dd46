"""Python's garbage collector in a load generator.

A look at everything that a program with this many modules holds takes 40 to 70 ms: where tails are measured, that
would be the tail. So what is there when the measuring begins is set apart, as programs do that care for their tail,
and as the broker does for itself. What comes later is collected as ever.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heap_set_apart() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
