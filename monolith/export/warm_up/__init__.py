"""Requests that a server answers before a version takes traffic: made up, or from a file of the user's."""
