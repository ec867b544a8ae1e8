"""Solvers of kernel support vector machines, one file an algorithm."""
