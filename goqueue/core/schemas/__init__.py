"""The schema registry: subjects and their versions, compatibility, and the validation of messages."""
