"""Solvers of linear support vector machines, one file an algorithm."""
