"""The import paths of the original system, each leading to its home here.

`from monolith.native_training.estimator import Estimator` gives what `monolith.train` defines. No files have
these names: `homes.py` is the table, `finder.py` the import finder that reads it, `absent.py` lists what is gone.
"""
