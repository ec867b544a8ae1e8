"""The model file: its contents, its layout, and how it is written and read."""
