"""The groups of a node: members, owners, and their descriptions for operators."""
