"""The generic max-min game of the sublinear primal-dual framework: problem, convex sets, players, weights, solver."""
