"""What all commands share: the broker they ask, what they print, how they run and end."""
