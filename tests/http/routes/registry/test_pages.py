"""Lists that are put together from pages."""

from typing import Any, NamedTuple, cast

from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.http.routes.registry.pages import everything
from goqueue.net.wire import schemas as wire


class Asked(NamedTuple):
    offset: int
    limit: int


class Pages:
    """In the place of a call: answers with pages of a list, and may give less than was asked for."""

    def __init__(self, names: list[str], most: int) -> None:
        self.names = names
        self.most = most
        self.asked: list[int] = []

    async def ask(self, request: wire.ListSubjects) -> wire.Subjects:
        self.asked.append(request.count_max)
        end = request.offset + min(request.count_max, self.most)
        return wire.Subjects(tuple(self.names[request.offset : end]), has_more=end < len(self.names))


@example(1, 1, 0, 0)
@given(st.integers(0, 12), st.integers(1, 5), st.integers(0, 14), st.integers(-2, 14))
async def test_a_list_is_whole_whatever_its_pages_are(count: int, most: int, offset: int, limit: int) -> None:
    names = [str(number) for number in range(count)]
    pages = Pages(names, most)
    request = wire.ListSubjects(count_max=3)
    found = await everything(cast(Any, pages), request, Asked(offset, limit), lambda page: page.names)
    assert found == (names[offset:] if limit < 0 else names[offset:][:limit])
    assert all(1 <= each <= 3 for each in pages.asked)
    assert len(pages.asked) <= len(found) + 1
