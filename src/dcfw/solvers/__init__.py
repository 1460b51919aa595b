"""The solvers: one Frank-Wolfe loop, and a short file around it for each method."""
