"""Messages with any field values that their annotations allow, and the small ones that stories are told with."""

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from goqueue.net.wire.fields import INTEGER_MAX, INTEGER_MIN, Count, Range, Size
from goqueue.net.wire.kinds import ANSWERS, BODIES, Body

ITEMS_MAX = 4
SIZE_MAX = 40


def bodies_of(body: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(body, include_extras=True)
    return st.builds(body, *(values_of(hints[name]) for name in body._fields))


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return limited_values(*get_args(annotation))
    if origin in (Union, UnionType):
        (kept,) = [each for each in get_args(annotation) if each is not NoneType]
        return st.none() | values_of(kept)
    return st.booleans() if annotation is bool else bodies_of(annotation)


def limited_values(base: Any, limit: Range | Size | Count) -> st.SearchStrategy[Any]:
    if isinstance(limit, Range):
        return st.integers(*limit)
    if isinstance(limit, Size):
        sized = st.text if base is str else st.binary
        return sized(min_size=limit.smallest, max_size=min(limit.largest, max(limit.smallest, SIZE_MAX)))
    if get_origin(base) is dict:
        return st.dictionaries(st.text(max_size=SIZE_MAX), scalars, max_size=ITEMS_MAX)
    return st.lists(values_of(get_args(base)[0]), max_size=ITEMS_MAX).map(tuple)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(INTEGER_MIN, INTEGER_MAX)
    | st.floats(allow_nan=False)
    | st.text(max_size=SIZE_MAX)
    | st.binary(max_size=SIZE_MAX)
)
correlations = st.integers(0, 2**32 - 1)
any_body: st.SearchStrategy[Body] = st.sampled_from(list(BODIES.values())).flatmap(bodies_of)
any_request: st.SearchStrategy[Any] = st.sampled_from(list(ANSWERS)).flatmap(bodies_of)
