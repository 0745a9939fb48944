"""What the files of a checkpoint look like: names, manifest, chains of deltas, tensors, the original's text files."""
