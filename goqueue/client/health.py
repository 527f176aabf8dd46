"""The health of a broker, as a client gets it."""

from goqueue.core.health import Health, HealthReason
from goqueue.net.wire.messages import HealthReport


def health_of(report: HealthReport) -> Health:
    return Health(report.status, tuple(HealthReason(*each) for each in report.degraded))
