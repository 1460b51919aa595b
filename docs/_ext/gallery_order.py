"""Sort the gallery by families of problems."""

from __future__ import annotations

FAMILIES = {
    "smooth, two splits": ["two_splits"],
    "quadratics": ["maximum_clique", "max_cut", "graph_colouring"],
    "assignment": ["graph_matching", "two_networks", "concave_transport"],
    "transport and traffic": ["traffic", "gromov"],
    "alignment and completion": ["embedding_alignment", "matrix_completion"],
    "sparse penalties": ["sparse_recovery", "scad_regression"],
    "robust losses": ["trimmed_regression", "ramp_svm"],
    "samples and networks": ["stochastic_gradients", "constrained_network", "transformer"],
}
ORDER = [f"plot_{name}.py" for names in FAMILIES.values() for name in names]


class ByFamily:
    """A sort key for sphinx-gallery; unlisted examples come last."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, filename: str) -> tuple[int, str]:
        return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)

    def __repr__(self) -> str:
        return "ByFamily"  # a constant: otherwise every build would regenerate all pages
