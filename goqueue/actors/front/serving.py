"""Every request of the protocol, and the function that serves it."""

from goqueue.actors.front import delays, deliveries, groups, records, schemas, streams, topics
from goqueue.actors.front.session import Serving
from goqueue.net.wire.groups import CommitOffsets, JoinGroup, Receive, Settle
from goqueue.net.wire.messages import Produce

SERVING = Serving(
    begun={
        Produce: records.begin_produce,
        Receive: deliveries.begin_receive,
        Settle: deliveries.begin_settle,
        CommitOffsets: streams.begin_commit,
        JoinGroup: groups.begin_join,
    },
    answered={
        **topics.ANSWERED,
        **records.ANSWERED,
        **groups.ANSWERED,
        **streams.ANSWERED,
        **delays.ANSWERED,
        **schemas.ANSWERED,
    },
)
