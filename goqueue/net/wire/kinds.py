"""Which kind each message is, and what answers it.

A message that asks has an even number from 16 on; what answers it has a number of its own, listed in `ANSWERS`, or
is an `Error`. A number is for ever: what is no longer said leaves its number unused.
"""

from enum import IntEnum
from typing import TypeAlias

from goqueue.net.wire import delays as delay
from goqueue.net.wire import groups as group
from goqueue.net.wire import messages as wire


class Kind(IntEnum):
    HELLO = 1
    WELCOME = 2
    GO_AWAY = 3
    ERROR = 4
    PART = 5
    DONE = 7

    CREATE_TOPIC = 16
    TOPICS = 17
    ALTER_TOPIC = 18
    ADD_PARTITIONS = 20
    DESCRIBE_TOPICS = 22
    DELETE_TOPIC = 24
    PURGE = 26
    DELETE_BEFORE = 28
    INIT_PRODUCER = 32
    PRODUCER_READY = 33
    PRODUCE = 34
    PRODUCED = 35
    FETCH = 36
    FETCHED = 37
    OFFSET_AT_TIME = 38
    OFFSET_FOUND = 39
    STATS = 40
    STATS_REPORT = 41
    TAKE_SNAPSHOT = 42
    SNAPSHOT = 43
    RESTORE_PARTITION = 44
    PARTITION_RESTORED = 45

    JOIN_GROUP = 48
    MEMBERSHIP = 49
    HEARTBEAT = 50
    LEAVE_GROUP = 52
    RECEIVE = 54
    RECEIVED = 55
    SETTLE = 56
    SETTLED = 57
    DESCRIBE_GROUPS = 58
    GROUPS = 59
    ALTER_GROUP = 60
    DELETE_GROUP = 62
    RESET_GROUP = 64
    GROUP_RESET = 65
    REDRIVE = 66
    REDRIVEN = 67
    COMMIT_OFFSETS = 68
    OFFSETS_COMMITTED = 69
    ASK_OFFSETS = 70
    GROUP_OFFSETS = 71
    SKIP_DAMAGED = 72
    DAMAGED_SKIPPED = 73

    WHY = 80
    BECAUSE = 81

    LIST_DELAYED = 88
    DELAYED_ENTRIES = 89
    CANCEL_DELAYED = 90
    DELAY_CHANGED = 91
    MOVE_DELAYED = 92
    COUNT_DELAYED = 94
    DELAYED_COUNTS = 95


Request: TypeAlias = (
    wire.CreateTopic
    | wire.AlterTopic
    | wire.AddPartitions
    | wire.DescribeTopics
    | wire.DeleteTopic
    | wire.Purge
    | wire.DeleteBefore
    | wire.InitProducer
    | wire.Produce
    | wire.Fetch
    | wire.OffsetAtTime
    | wire.Stats
    | wire.TakeSnapshot
    | wire.RestorePartition
    | group.JoinGroup
    | group.Heartbeat
    | group.LeaveGroup
    | group.Receive
    | group.Settle
    | group.DescribeGroups
    | group.AlterGroup
    | group.DeleteGroup
    | group.ResetGroup
    | group.SkipDamaged
    | group.Redrive
    | group.Why
    | group.CommitOffsets
    | group.AskOffsets
    | delay.ListDelayed
    | delay.CancelDelayed
    | delay.MoveDelayed
    | delay.CountDelayed
)
Answer: TypeAlias = (
    wire.Topics
    | wire.Done
    | wire.ProducerReady
    | wire.Produced
    | wire.Fetched
    | wire.OffsetFound
    | wire.StatsReport
    | wire.Snapshot
    | wire.PartitionRestored
    | group.Membership
    | group.Received
    | group.Settled
    | group.Groups
    | group.GroupReset
    | group.DamagedSkipped
    | group.Redriven
    | group.Because
    | group.OffsetsCommitted
    | group.GroupOffsets
    | delay.DelayedEntries
    | delay.DelayChanged
    | delay.DelayedCounts
)
Body: TypeAlias = wire.Hello | wire.Welcome | wire.GoAway | wire.Error | wire.Part | Request | Answer

BODIES: dict[int, type[Body]] = {
    Kind.HELLO: wire.Hello,
    Kind.WELCOME: wire.Welcome,
    Kind.GO_AWAY: wire.GoAway,
    Kind.ERROR: wire.Error,
    Kind.PART: wire.Part,
    Kind.DONE: wire.Done,
    Kind.CREATE_TOPIC: wire.CreateTopic,
    Kind.TOPICS: wire.Topics,
    Kind.ALTER_TOPIC: wire.AlterTopic,
    Kind.ADD_PARTITIONS: wire.AddPartitions,
    Kind.DESCRIBE_TOPICS: wire.DescribeTopics,
    Kind.DELETE_TOPIC: wire.DeleteTopic,
    Kind.PURGE: wire.Purge,
    Kind.DELETE_BEFORE: wire.DeleteBefore,
    Kind.INIT_PRODUCER: wire.InitProducer,
    Kind.PRODUCER_READY: wire.ProducerReady,
    Kind.PRODUCE: wire.Produce,
    Kind.PRODUCED: wire.Produced,
    Kind.FETCH: wire.Fetch,
    Kind.FETCHED: wire.Fetched,
    Kind.OFFSET_AT_TIME: wire.OffsetAtTime,
    Kind.OFFSET_FOUND: wire.OffsetFound,
    Kind.STATS: wire.Stats,
    Kind.STATS_REPORT: wire.StatsReport,
    Kind.TAKE_SNAPSHOT: wire.TakeSnapshot,
    Kind.SNAPSHOT: wire.Snapshot,
    Kind.RESTORE_PARTITION: wire.RestorePartition,
    Kind.PARTITION_RESTORED: wire.PartitionRestored,
    Kind.JOIN_GROUP: group.JoinGroup,
    Kind.MEMBERSHIP: group.Membership,
    Kind.HEARTBEAT: group.Heartbeat,
    Kind.LEAVE_GROUP: group.LeaveGroup,
    Kind.RECEIVE: group.Receive,
    Kind.RECEIVED: group.Received,
    Kind.SETTLE: group.Settle,
    Kind.SETTLED: group.Settled,
    Kind.DESCRIBE_GROUPS: group.DescribeGroups,
    Kind.GROUPS: group.Groups,
    Kind.ALTER_GROUP: group.AlterGroup,
    Kind.DELETE_GROUP: group.DeleteGroup,
    Kind.RESET_GROUP: group.ResetGroup,
    Kind.GROUP_RESET: group.GroupReset,
    Kind.SKIP_DAMAGED: group.SkipDamaged,
    Kind.DAMAGED_SKIPPED: group.DamagedSkipped,
    Kind.REDRIVE: group.Redrive,
    Kind.REDRIVEN: group.Redriven,
    Kind.WHY: group.Why,
    Kind.BECAUSE: group.Because,
    Kind.COMMIT_OFFSETS: group.CommitOffsets,
    Kind.OFFSETS_COMMITTED: group.OffsetsCommitted,
    Kind.ASK_OFFSETS: group.AskOffsets,
    Kind.GROUP_OFFSETS: group.GroupOffsets,
    Kind.LIST_DELAYED: delay.ListDelayed,
    Kind.DELAYED_ENTRIES: delay.DelayedEntries,
    Kind.CANCEL_DELAYED: delay.CancelDelayed,
    Kind.DELAY_CHANGED: delay.DelayChanged,
    Kind.MOVE_DELAYED: delay.MoveDelayed,
    Kind.COUNT_DELAYED: delay.CountDelayed,
    Kind.DELAYED_COUNTS: delay.DelayedCounts,
}
KINDS: dict[type[Body], int] = {body: int(kind) for kind, body in BODIES.items()}

ANSWERS: dict[type[Body], type[Body]] = {
    wire.CreateTopic: wire.Topics,
    wire.AlterTopic: wire.Topics,
    wire.AddPartitions: wire.Topics,
    wire.DescribeTopics: wire.Topics,
    wire.DeleteTopic: wire.Done,
    wire.Purge: wire.Done,
    wire.DeleteBefore: wire.Done,
    wire.InitProducer: wire.ProducerReady,
    wire.Produce: wire.Produced,
    wire.Fetch: wire.Fetched,
    wire.OffsetAtTime: wire.OffsetFound,
    wire.Stats: wire.StatsReport,
    wire.TakeSnapshot: wire.Snapshot,
    wire.RestorePartition: wire.PartitionRestored,
    group.JoinGroup: group.Membership,
    group.Heartbeat: group.Membership,
    group.LeaveGroup: wire.Done,
    group.Receive: group.Received,
    group.Settle: group.Settled,
    group.DescribeGroups: group.Groups,
    group.AlterGroup: group.Groups,
    group.DeleteGroup: wire.Done,
    group.ResetGroup: group.GroupReset,
    group.SkipDamaged: group.DamagedSkipped,
    group.Redrive: group.Redriven,
    group.Why: group.Because,
    group.CommitOffsets: group.OffsetsCommitted,
    group.AskOffsets: group.GroupOffsets,
    delay.ListDelayed: delay.DelayedEntries,
    delay.CancelDelayed: delay.DelayChanged,
    delay.MoveDelayed: delay.DelayChanged,
    delay.CountDelayed: delay.DelayedCounts,
}
"""Each request, and what answers it unless an `Error` does."""
