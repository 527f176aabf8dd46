"""The groups of a node: members, owners, and what people are shown of them."""
