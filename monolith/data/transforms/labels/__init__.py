"""Steps that make and change labels."""
