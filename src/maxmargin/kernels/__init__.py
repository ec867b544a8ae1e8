"""Kernel functions, blocks of kernel rows and the cache that keeps them, and vectors of a kernel's space."""
