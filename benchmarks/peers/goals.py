"""What goqueue promises itself beside its peers: ratios within one run."""

from dataclasses import dataclass

from benchmarks.figures import Figure
from benchmarks.peers.alternation import Row, ratio


@dataclass(frozen=True, slots=True)
class Goal:
    name: str
    ours: str
    theirs: str
    at_least: float | None = None
    at_most: float | None = None
    aim: float | None = None

    def figure(self, rows: dict[str, Row]) -> Figure:
        value = ratio(rows, self.ours, self.theirs)
        return Figure(self.name, value, "×", self._words(), self._is_met(value))

    def _is_met(self, value: float) -> bool | None:
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most

    def _words(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        aim = "" if self.aim is None else f" (aim {self.aim:g})"
        return "" if self.at_least is None else f"≥ {self.at_least:g}{aim}"


GOALS = [
    Goal("publish acks=leader / Redis everysec", "goqueue leader", "redis", at_least=3.5, aim=5),
    Goal("publish acks=all / Redis everysec", "goqueue all", "redis", at_least=3, aim=5),
    Goal("publish acks=all / Redis always", "goqueue all", "redis always"),
    Goal("publish, 500 at a time, one call / Redis everysec", "goqueue one", "redis"),
    Goal("read / XREADGROUP with XACK", "goqueue read", "redis group", at_least=4, aim=8),
    Goal("read / XRANGE", "goqueue read", "redis range"),
    Goal("single publish acks=all / Redis always", "goqueue single all", "redis single always", at_most=3.5),
    Goal("single publish acks=leader / Redis everysec", "goqueue single leader", "redis single"),
    Goal("publish acks=leader / NATS JetStream", "goqueue leader", "nats"),
    Goal("publish acks=all / RabbitMQ", "goqueue all", "rabbitmq"),
    Goal("publish acks=leader / beanstalkd", "goqueue leader", "beanstalkd"),
]


def ratios(rows: list[Row]) -> list[Figure]:
    """Those of which both sides ran."""
    by_key = {row.workload.key: row for row in rows}
    return [goal.figure(by_key) for goal in GOALS if goal.ours in by_key and goal.theirs in by_key]
