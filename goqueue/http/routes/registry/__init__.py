"""The routes of Confluent's schema registry, in whose form its own clients ask."""
