"""Semidefinite programs: feasibility, programs, and their solvers."""
