"""Input that means harm, or that rot has made so: frames, connections, files, settings."""
