"""Messages that files and other programs share, and the code generated from them.

The ``.proto`` files keep the package, message and field names, the field numbers and the defaults of the original
system, so bytes written by it parse here and the other way round. Fields that only this system has are numbered from
101 on; a reader that does not know them skips them.

After editing a ``.proto`` file run ``python -m monolith.protos.generate`` (it needs ``grpcio-tools``, part of the
``dev`` extra) and commit what it wrote.
"""
