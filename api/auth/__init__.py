"""Who may do what: API tokens with roles, and sessions of browsers."""
