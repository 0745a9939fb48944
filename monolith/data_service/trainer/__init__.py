"""What a trainer has of a data service."""
