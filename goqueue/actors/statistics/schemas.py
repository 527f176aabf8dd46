"""The counters of the schema registry, by their names."""

SCHEMA_COUNTERS = {
    "schemas": "how many different ones the registry has",
    "schemas.subjects": "that have versions",
    "schemas.versions": "of all subjects, those that are not deleted",
    "schemas.deleted_versions": "those that are softly deleted",
    "schemas.size": "of the texts of all schemas, in characters",
    "schemas.registrations.RESULT": "since the start: `new`, `existing`, or the code of a refusal",
}
