"""Dense layers, alone and one after the other."""
