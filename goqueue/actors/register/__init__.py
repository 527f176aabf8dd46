"""The register of groups: which there are, durably."""
