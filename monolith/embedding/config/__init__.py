"""What a table is made of, as values: segments with their optimizer, initializer and compressor.

Each class converts to and from the message of the same meaning in :mod:`monolith.protos`. Import the names from
:mod:`monolith.embedding.entry`.
"""
