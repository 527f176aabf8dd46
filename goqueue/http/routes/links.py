"""What an answer is good for: which route takes its values next.

Readers of the reference see it, and the test that walks through the routes at random follows it: from a topic to
its messages, from a join to a poll to an ack.
"""

from collections.abc import Iterator

from goqueue.http.routing.route import RouteLink

TOPIC, GROUP = "/topics/{topic}", "/groups/{group}"
_NAMED = "$response.body#/name"
_SAME_TOPIC, _SAME_GROUP = "$request.path.topic", "$request.path.group"
_MEMBER = "$response.body#/member_id"


def _of_a_topic(source: str, topic: str) -> Iterator[RouteLink]:
    for target in (
        f"GET {TOPIC}",
        f"GET {TOPIC}/partitions",
        f"PATCH {TOPIC}",
        f"POST {TOPIC}/messages",
        f"GET {TOPIC}/messages",
        f"GET {TOPIC}/delayed",
        f"GET {TOPIC}/dead-letters",
        f"POST {TOPIC}/purge",
        f"DELETE {TOPIC}",
    ):
        yield RouteLink(source, target, {"topic": topic})
    yield RouteLink(source, f"POST {GROUP}/join", {}, {"topics": [topic], "start": "earliest"})


def _of_a_message() -> Iterator[RouteLink]:
    place = {
        "topic": _SAME_TOPIC,
        "partition": "$response.body#/results/0/partition",
        "offset": "$response.body#/results/0/offset",
    }
    one = f"{TOPIC}/partitions/{{partition}}/messages/{{offset}}"
    delayed = f"{TOPIC}/delayed/{{partition}}/{{offset}}"
    for target in (
        f"GET {one}",
        f"GET {one}/value",
        f"GET {delayed}",
        f"DELETE {delayed}",
        f"POST {delayed}/deliver",
    ):
        yield RouteLink(f"POST {TOPIC}/messages", target, place)


def _of_a_member() -> Iterator[RouteLink]:
    source = f"POST {GROUP}/join"
    for target in ("GET {}", "GET {}/assignment", "GET {}/offsets", "PATCH {}"):
        yield RouteLink(source, target.format(GROUP), {"group": _SAME_GROUP})
    yield RouteLink(source, f"GET /why{GROUP}", {"group": _SAME_GROUP, "member": _MEMBER})
    yield RouteLink(source, f"GET {GROUP}/poll", {"group": _SAME_GROUP, "member_id": _MEMBER, "timeout": "0.1"})
    for target in ("POST {}/heartbeat", "POST {}/leave"):
        yield RouteLink(source, target.format(GROUP), {"group": _SAME_GROUP}, {"member_id": _MEMBER})


def _of_a_receipt() -> Iterator[RouteLink]:
    for action in ("ack", "nack", "reject", "release", "visibility"):
        body = {"receipts": ["$response.body#/messages/0/receipt"]}
        yield RouteLink(f"GET {GROUP}/poll", f"POST /messages/{action}", {}, body)


def _of_a_schema() -> Iterator[RouteLink]:
    source = "POST /subjects/{subject}/versions"
    subject, number = {"subject": "$request.path.subject"}, {"version": "$response.body#/version"}
    for target in ("GET {}", "GET {}/schema", "GET {}/referencedby", "DELETE {}"):
        yield RouteLink(source, target.format("/subjects/{subject}/versions/{version}"), {**subject, **number})
    for target in ("GET {}", "GET {}/schema", "GET {}/subjects", "GET {}/versions"):
        yield RouteLink(source, target.format("/schemas/ids/{id}"), {"id": "$response.body#/id"})
    for target in ("GET {}", "GET {}/ids"):
        yield RouteLink(source, target.format("/schemas/guids/{guid}"), {"guid": "$response.body#/guid"})
    same = {"schema": "$response.body#/schema", "schemaType": "$response.body#/schemaType"}
    for target in ("/subjects/{subject}", "/compatibility/subjects/{subject}/versions"):
        yield RouteLink(source, f"POST {target}", subject, same)


LINKS = (
    *_of_a_topic("POST /topics", _NAMED),
    *_of_a_topic(f"POST {TOPIC}/messages", _SAME_TOPIC),
    *_of_a_message(),
    *_of_a_member(),
    *_of_a_receipt(),
    *_of_a_schema(),
)
