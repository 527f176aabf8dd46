"""`goqueue log`: the files of a broker, checked and shown."""
