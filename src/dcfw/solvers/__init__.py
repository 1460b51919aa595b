"""The solvers: a short file for each method, around a generic loop and a loop with an active set."""
