"""A registry in memory, and what its clients ask of it over HTTP."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import goqueue
from tests.http.world import Answered, HttpClient, connected

KIND = "application/vnd.schemaregistry.v1+json"
OF_CONFLUENT = {"content-type": KIND, "accept": "*/*", "confluent-accept-unknown-properties": "true"}

CLOSED = {
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
    "additionalProperties": False,
}
WIDER = {**CLOSED, "properties": {**CLOSED["properties"], "note": {"type": "string"}}}  # type: ignore[dict-item]
"""Compatible with `CLOSED`: one property more, which is optional."""
STRICTER = {**WIDER, "required": ["id", "note"]}
"""Not compatible with either."""


def text(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def body(schema: Any, **more: Any) -> dict[str, Any]:
    return {"schema": text(schema), "schemaType": "JSON", **more}


class RegistryClient:
    def __init__(self, http: HttpClient, root: str = "") -> None:
        self.http = http
        self._root = root

    async def ask(
        self, method: str, path: str, given: Any = None, headers: Mapping[str, str] = OF_CONFLUENT
    ) -> Answered:
        sent = headers if given is not None or headers is not OF_CONFLUENT else {"accept": "*/*"}
        answered = await self.http.ask(method, self._root + path, given, sent)
        assert answered.headers["content-type"] == KIND, answered
        return answered

    async def good(self, method: str, path: str, given: Any = None) -> Any:
        answered = await self.ask(method, path, given)
        assert answered.status == 200, answered.body
        return answered.json()

    async def refused(self, method: str, path: str, given: Any = None) -> tuple[int, int]:
        """Status and number of the refusal."""
        answered = await self.ask(method, path, given)
        told = answered.json()
        assert set(told) == {"error_code", "message"}, told
        assert told["message"]
        return answered.status, told["error_code"]

    async def register(self, subject: str, schema: Any, query: str = "", **more: Any) -> Any:
        return await self.good("POST", f"/subjects/{subject}/versions{query}", body(schema, **more))


@asynccontextmanager
async def registry(root: str = "") -> AsyncIterator[RegistryClient]:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        yield RegistryClient(http, root)
