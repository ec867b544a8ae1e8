"""The smallest enclosing ball: the problem and its solvers."""
