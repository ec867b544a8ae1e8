"""Max-margin models: fast to train, certified, and able to learn without reading all of the data."""

__version__ = "0.1.0"
