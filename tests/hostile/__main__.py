"""`python -m tests.hostile SEED`: one seed of hostile frames at both ends."""

import sys
import tracemalloc

from tests.hostile.sessions import harass_client, harass_server

if __name__ == "__main__":
    seed = int(sys.argv[1])
    tracemalloc.start()
    harass_server(seed)
    harass_client(seed)
    print(f"seed {seed}: both ends survive")
