"""The import paths of the original system.

Code that exists only for the original's API lies here, in files at its original paths. All other names live elsewhere:
`from monolith.native_training.estimator import Estimator` gives what `monolith.train` defines. `homes.py` is the table
of these names, `finder.py` the import finder that reads it, `absent.py` lists what is gone.
"""
