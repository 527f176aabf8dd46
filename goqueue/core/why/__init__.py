"""Why nothing is being delivered: facts in, one sentence out."""
