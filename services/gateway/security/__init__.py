"""Who may do what: sessions, tokens, scopes, and the checks of every request."""
