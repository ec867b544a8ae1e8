"""The model file: what is written, in which layout, and how it is read."""
