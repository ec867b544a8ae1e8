"""What every solver shares: problems, certificates, solvers and their registry, the loop, the trace."""
