"""What takes a broker out of service, and what only impairs it."""

from dataclasses import replace

import pytest

from goqueue.core.health import Health, HealthFacts, judge

MEBIBYTE = 1024 * 1024
SOUND = HealthFacts(disk_free=10 * MEBIBYTE, disk_needed=MEBIBYTE)
LOW = replace(SOUND, disk_free=MEBIBYTE - 1)


def codes(health: Health) -> list[str]:
    return [reason.code for reason in health.degraded]


def test_a_sound_broker_is_ready_and_nothing_impairs_it() -> None:
    assert judge(SOUND) == judge(SOUND, for_publish=True) == Health("ready", ())
    assert judge(SOUND).is_ready


def test_a_full_disk_takes_the_broker_out_of_service_for_publishes_alone() -> None:
    assert (judge(LOW).status, codes(judge(LOW))) == ("ready", ["disk_low"])
    refused = judge(LOW, for_publish=True)
    assert (refused.status, codes(refused)) == ("disk_low", ["disk_low"])
    assert not refused.is_ready


def test_a_disk_without_a_minimum_is_never_too_full() -> None:
    assert judge(replace(LOW, disk_needed=0), for_publish=True).is_ready


def test_a_broker_that_shuts_down_is_ready_for_nobody() -> None:
    assert judge(replace(LOW, is_draining=True), for_publish=True).status == "draining"
    assert judge(replace(SOUND, is_draining=True)).status == "draining"


@pytest.mark.parametrize(
    ("facts", "code", "message", "cure"),
    [
        (
            replace(SOUND, lost=["orders/0", "orders/2"]),
            "partitions_lost",
            "2 partitions are lost: orders/0, orders/2",
            "goqueue topic restore-partition orders/0",
        ),
        (
            replace(SOUND, unavailable=["pay/7"]),
            "partitions_unavailable",
            "1 partition is unavailable: pay/7",
            "goqueue topic describe pay says why",
        ),
        (
            replace(SOUND, damaged=[f"orders/{number}" for number in range(5)]),
            "damaged",
            "messages of orders/0, orders/1, orders/2 and 2 more cannot be read",
            "goqueue group skip",
        ),
        (LOW, "disk_low", "1.0 MiB are free on the disk, and publishes are refused below 1.0 MiB", "purge topics"),
        (
            replace(SOUND, stall_seconds=2.34),
            "loop_stalled",
            "the event loop stood still for 2.3 s within the last minute",
            "goqueue stats counts the stalls",
        ),
        (
            replace(SOUND, dead_letters={"pay": 1}),
            "dead_letters",
            "1 dead letter waits: pay (1)",
            "goqueue dlq show pay",
        ),
        (
            replace(SOUND, dead_letters={"pay": 1200, "orders": 1}),
            "dead_letters",
            "1,201 dead letters wait: orders (1), pay (1,200)",
            "goqueue dlq show orders",
        ),
    ],
)
def test_each_reason_says_what_it_is_and_what_to_do(facts: HealthFacts, code: str, message: str, cure: str) -> None:
    health = judge(facts)
    assert health.is_ready
    [reason] = health.degraded
    assert (reason.code, reason.message) == (code, message)
    assert cure in reason.cure


def test_a_short_stall_impairs_nothing() -> None:
    assert judge(replace(SOUND, stall_seconds=1.0)).degraded == ()


def test_what_wants_somebody_soonest_comes_first() -> None:
    facts = replace(LOW, lost=["a/0"], unavailable=["a/1"], damaged=["a/2"], stall_seconds=9, dead_letters={"a": 1})
    assert codes(judge(facts)) == [
        *("disk_low", "partitions_lost", "partitions_unavailable", "damaged", "loop_stalled", "dead_letters"),
    ]
