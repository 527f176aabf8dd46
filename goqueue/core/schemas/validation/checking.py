"""Whether a schema can be registered, as far as it alone decides."""

from collections.abc import Generator

from goqueue.core.schemas.reading.documents import Documents
from goqueue.core.schemas.reading.parsing import parsed
from goqueue.core.schemas.schema import ResolvedSchema, SchemaType
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.compiling import compiling_read
from goqueue.core.schemas.validation.metaschemas import check_keywords


def checking(resolved: ResolvedSchema) -> Generator[None, None, None]:
    """Raises `InvalidSchema` with the path of what is wrong; yields after each small piece of work.

    An Avro schema is only looked at as JSON.
    """
    if resolved.type is SchemaType.AVRO:
        yield from parsed(resolved.text)
        return
    documents = Documents()
    yield from documents.load(resolved)
    yield from check_keywords(documents.places)
    known = len(documents.places)
    yield from documents.resolve()
    yield from check_keywords(documents.places[known:])
    yield from compiling_read(resolved, documents)


def check_schema(resolved: ResolvedSchema) -> None:
    """The same at once. A large schema takes a while; `checking` lets others run."""
    finished(checking(resolved))
