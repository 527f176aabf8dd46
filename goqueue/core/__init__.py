"""The rules, pure: no waiting, no clock, no chance, no disk. Time is an argument, results are returned."""
