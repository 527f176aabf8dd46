"""`goqueue top`: what a broker does, live in the terminal."""
