"""Commands about single ids of a model, and the rows of all of them."""
