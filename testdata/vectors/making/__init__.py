"""Makes the vector files. One module a file; each has make() → document."""
