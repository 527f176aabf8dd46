"""What the registry shows: its state between two changes. Others read it and call nobody.

A change is on the board once it is durable, and before it is answered. So a message that is published after a
registration was answered is held to the new schema.
"""

from goqueue.core.schemas.validation.topicschemas import TopicSchemas


class SchemaBoard:
    def __init__(self) -> None:
        self._topics: dict[str, TopicSchemas] = {}

    def of(self, topic: str) -> TopicSchemas | None:
        """The schemas of a topic; None when it has none."""
        return self._topics.get(topic)
