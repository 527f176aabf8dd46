"""Consumer groups: membership, assignment, ownership, settings, and which groups there are."""
