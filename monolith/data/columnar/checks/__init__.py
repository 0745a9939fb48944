"""What is checked of a file before its rows are used: pyarrow trusts what it reads."""
