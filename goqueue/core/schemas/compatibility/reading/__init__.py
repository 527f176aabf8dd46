"""A schema as it is compared: parsed, with its references found, and without what never matters."""
