"""Looking at what lies on a disk without touching it: every damaged range named, every file shown."""
