"""Who may use the gateway: people, one-time links, sessions and tokens, in files of the state directory."""
