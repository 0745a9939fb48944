"""Measures Monolith against its peers and against bounds, in the same run: `python -m benchmarks NAME`."""
