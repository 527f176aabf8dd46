"""Copies and repairs: `goqueue backup`, `restore`, `recover`, `topic restore-partition`."""
