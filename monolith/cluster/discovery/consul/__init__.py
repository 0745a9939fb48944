"""Discovery by Consul. Needs py-consul, except for the retry rule."""
