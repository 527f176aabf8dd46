"""The testing kit: a simulated machine that replays from a seed."""
