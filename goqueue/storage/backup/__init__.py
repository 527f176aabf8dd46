"""Copies of a broker's data, and reading them back."""
