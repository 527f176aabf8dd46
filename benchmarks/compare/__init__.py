"""Compares the present tree with a commit: `./dev bench compare COMMIT NAME…`.

Each round runs a benchmark three times: the commit (old), the present tree (new), and the commit once more (again).
The order rotates from round to round, so that none of them always finds the machine idle. `new / old` says what
changed, `again / old` says how much of that is noise.
"""
