"""The generic max-min game of Garber and Hazan's sublinear primal-dual framework: sets, players, solvers."""
