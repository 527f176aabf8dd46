"""Making a log smaller: retention, compaction by key, thinning, merging."""
