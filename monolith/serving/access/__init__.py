"""Who may ask a server over HTTP: bearer tokens, and TLS with or without certificates of clients."""
