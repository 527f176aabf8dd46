"""Who may do what: principals, the rights that each kind of request needs, quotas, and the audit."""
