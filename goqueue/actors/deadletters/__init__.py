"""Dead letters on their way: carried to their topic, and sent back by a redrive."""
