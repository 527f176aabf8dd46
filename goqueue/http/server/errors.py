"""What only HTTP refuses, and the status of every error.

An answer that refuses has one form, whoever refused: `code`, `message`, `retryable`, `details`, `request_id`. The
codes are those of the wire, and a few of HTTP's own, which no client library ever sees.
"""

from collections.abc import Mapping

from goqueue.errors import GoQueueError, RegistryError


class HttpError(GoQueueError):
    """A request that HTTP itself refuses."""

    code = "invalid_request"
    status = 400


class InvalidRequest(HttpError):
    """The request cannot be understood: its head, its JSON, one of its fields."""


class UnsupportedRequest(HttpError):
    """Another version of HTTP."""

    code = "unsupported_request"
    status = 505


class NotFound(HttpError):
    """There is nothing at this path."""

    code = "not_found"
    status = 404


class MethodNotAllowed(HttpError):
    """The path knows other methods; `Allow` names them."""

    code = "method_not_allowed"
    status = 405


class NotAcceptable(HttpError):
    """The route gives none of the media types that the request accepts."""

    code = "not_acceptable"
    status = 406


class RequestTimedOut(HttpError):
    """The head or the body came too slowly."""

    code = "request_timed_out"
    status = 408
    retryable = True


class BodyTooLarge(HttpError):
    """The body is larger than this route takes."""

    code = "too_large"
    status = 413


class UnsupportedMediaType(HttpError):
    """The body is of a type that this route does not take."""

    code = "unsupported_media_type"
    status = 415


class RangeNotThere(HttpError):
    """The offset lies above the end of the partition."""

    code = "offset_out_of_range"
    status = 416


class WrongServer(HttpError):
    """This port speaks HTTP, and the request asks for a websocket."""

    code = "wrong_port"
    status = 426


class InFlightFull(HttpError):
    """The member holds as many messages as one may; settle some first."""

    code = "in_flight_full"
    status = 429
    retryable = True


class HeadTooLarge(HttpError):
    """The head of the request is larger than 16 KiB."""

    code = "head_too_large"
    status = 431


class Overloaded(HttpError):
    """The requests or answers under way are all that the broker keeps at once."""

    code = "overloaded"
    status = 503
    retryable = True


class Bug(HttpError):
    """The broker failed in a way that nobody foresaw; its log says how, under the id of the request."""

    code = "internal_error"
    status = 500


STATUS: Mapping[str, int] = {
    **dict.fromkeys(
        [
            "corrupt_message",
            "error",
            "invalid_config",
            "invalid_message",
            "invalid_name",
            "protocol_error",
            "unknown_kind",
            "unsupported_version",
        ],
        400,
    ),
    "handshake_refused": 403,
    **dict.fromkeys(
        [
            "unknown_group",
            "unknown_member",
            "unknown_partition",
            "unknown_schema",
            "unknown_subject",
            "unknown_topic",
        ],
        404,
    ),
    **dict.fromkeys(
        [
            "directory_not_empty",
            "duplicate_message",
            "fenced",
            "group_conflict",
            "incompatible_schema",
            "not_damaged",
            "out_of_order_sequence",
            "producer_refused",
            "repeat_too_old",
            "stale_generation",
            "stale_receipt",
            "topic_exists",
            "unknown_producer",
        ],
        409,
    ),
    **dict.fromkeys(["damaged_data", "data_lost", "offset_out_of_range", "partition_lost"], 410),
    **dict.fromkeys(["frame_too_large", "too_large"], 413),
    "wrong_cluster": 421,
    **dict.fromkeys(
        ["batch_refused", "invalid_schema", "registry_error", "schema_conflict", "schema_refused"], 422
    ),
    **dict.fromkeys(["mailbox_full", "too_many_requests"], 429),
    **dict.fromkeys(
        [
            "disk_failed",
            "incomplete_copy",
            "log_stopped",
            "partition_unavailable",
            "storage_error",
            "unexpected_file",
            "unknown_format",
        ],
        500,
    ),
    **dict.fromkeys(
        ["actor_died", "call_cycle", "closed", "going_away", "too_many_files", "topic_full", "unavailable"], 503
    ),
    **dict.fromkeys(["delivery_timeout", "delivery_unknown", "outcome_unknown"], 504),
    "disk_full": 507,
}

STAYS_INSIDE = {
    "buffer_full",
    "cannot_listen",
    "connection_lost",
    "data_directory_locked",
    "foreign_directory",
    "handler_cannot_run",
    "publish_failed",
    "row_refused",
    "schema_misfit",
    "spark_not_ready",
    "table_in_use",
    "wrong_event_loop",
    "wrong_port",
}
"""Codes that never leave a client or a process: no answer of a broker has them."""


def status_of(error: GoQueueError) -> int:
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, RegistryError) and error.error_code is not None:
        return status_of_number(error.error_code)
    return STATUS.get(error.code, 500)


def status_of_number(error_code: int) -> int:
    """The numbers of Confluent's registry begin with the status, and some are no more than that."""
    status = error_code if error_code < 1_000 else error_code // 100
    return status if 400 <= status < 500 else 422
