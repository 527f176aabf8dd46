"""The table of routes: how a path finds its route, how its query and body are read, and what a handler is given."""
