"""The disk itself: files, syncs, threads, descriptors."""
