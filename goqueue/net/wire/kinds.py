"""All messages of the protocol together: the class of each kind, and what answers it.

Both are read from the messages themselves (registry.py). The unions are for type checkers; a test compares them.
"""

from typing import TypeAlias

from goqueue.net.wire import delays as delay
from goqueue.net.wire import groups as group
from goqueue.net.wire import letters as letter
from goqueue.net.wire import messages as wire
from goqueue.net.wire import schemas as schema
from goqueue.net.wire.registry import ANSWER_NAMES, REGISTERED, name_of

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
    | wire.CheckHealth
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
    | letter.Redrive
    | letter.Dismiss
    | letter.CountLetters
    | letter.FindDecisions
    | group.Why
    | group.CommitOffsets
    | group.AskOffsets
    | delay.ListDelayed
    | delay.CancelDelayed
    | delay.MoveDelayed
    | delay.CountDelayed
    | delay.FindDelayed
    | schema.RegisterSchema
    | schema.LookUpSchema
    | schema.GetSchema
    | schema.ListSubjects
    | schema.ListVersions
    | schema.ListSchemas
    | schema.FindUses
    | schema.FindReferrers
    | schema.DeleteSchema
    | schema.CheckSchema
    | schema.ReadSchemaSettings
    | schema.ChangeSchemaSettings
    | schema.CountSchemas
    | schema.FetchRegistry
)
Answer: TypeAlias = (
    wire.Topics
    | wire.Done
    | wire.ProducerReady
    | wire.Produced
    | wire.Fetched
    | wire.OffsetFound
    | wire.StatsReport
    | wire.HealthReport
    | wire.Snapshot
    | wire.PartitionRestored
    | group.Membership
    | group.Received
    | group.Settled
    | group.Groups
    | group.GroupReset
    | group.DamagedSkipped
    | letter.Redriven
    | letter.Dismissed
    | letter.LettersCounted
    | letter.LetterDecisions
    | group.Because
    | group.OffsetsCommitted
    | group.GroupOffsets
    | delay.DelayedEntries
    | delay.DelayChanged
    | delay.DelayedCounts
    | schema.SchemaRegistered
    | schema.SchemaFound
    | schema.Subjects
    | schema.SchemaVersions
    | schema.Schemas
    | schema.SchemaUses
    | schema.SchemaDeleted
    | schema.SchemaChecked
    | schema.SchemaSettings
    | schema.RegistryCounts
    | schema.RegistryPiece
)
Body: TypeAlias = wire.Hello | wire.Welcome | wire.GoAway | wire.Error | wire.Part | Request | Answer

_BY_NAME = {body.__name__: body for body in REGISTERED.values()}

BODIES: dict[int, type[Body]] = dict(sorted(REGISTERED.items()))
"""The class of each kind."""
KINDS: dict[type[Body], int] = {body: number for number, body in BODIES.items()}
KIND_NAMES: dict[type[Body], str] = {body: name_of(number) for number, body in BODIES.items()}
ANSWERS: dict[type[Body], type[Body]] = {request: _BY_NAME[name] for request, name in ANSWER_NAMES.items()}
"""The class that answers each request, unless an `Error` does."""
