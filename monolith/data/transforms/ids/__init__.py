"""Steps on ids: crossing them, moving them to other slots, mapping them."""
