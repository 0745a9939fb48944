"""Attacks on everything that comes from outside, as a kept program with seeds: `python -m tests.hostile`.

A new kind is a file with `COUNT` and `attack(seed, count) -> Report`, and a line in `kinds.py`.
"""
