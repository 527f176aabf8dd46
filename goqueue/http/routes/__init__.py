"""The routes, by what they are about: handlers turn JSON into requests of the wire, and answers into JSON."""

from goqueue.http.routes import (
    delayed,
    groups,
    health,
    letters,
    members,
    metrics,
    pages,
    publishing,
    reading,
    settling,
    stats,
    topics,
)
from goqueue.http.routes.registry import checking, schemas, settings, subjects
from goqueue.http.routing.route import Route

ROUTES: tuple[Route, ...] = (
    *topics.ROUTES,
    *publishing.ROUTES,
    *reading.ROUTES,
    *delayed.ROUTES,
    *letters.ROUTES,
    *groups.ROUTES,
    *members.ROUTES,
    *settling.ROUTES,
    *subjects.ROUTES,
    *schemas.ROUTES,
    *checking.ROUTES,
    *settings.ROUTES,
    *stats.ROUTES,
    *metrics.ROUTES,
    *health.ROUTES,
    *pages.ROUTES,
)
