"""Whether a schema reads what another one wrote."""
