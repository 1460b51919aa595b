r"""
Two networks of the same families
=================================

Padgett and Ansell recorded two networks among the leading families of Florence around 1430: marriages
(included in networkx) and business ties.  How similar are the two networks?
:func:`dcfw.qap.match` finds a matching of families that keeps as many ties as possible, and ``plot``
draws both graphs side by side: partners have the same position and colour, ties without a
counterpart are red.  The matching is checked against the identity, which keeps fewer ties.

J. F. Padgett, C. K. Ansell, "Robust action and the rise of the Medici, 1400-1434", American Journal of
Sociology 98 (1993).
"""

import matplotlib.pyplot as plt
import networkx as nx

import dcfw.qap

marriages = nx.florentine_families_graph()
business = nx.Graph()
business.add_nodes_from(marriages)
business.add_edges_from(
    [
        ("Barbadori", "Castellani"),
        ("Barbadori", "Ginori"),
        ("Barbadori", "Medici"),
        ("Barbadori", "Peruzzi"),
        ("Bischeri", "Guadagni"),
        ("Bischeri", "Lamberteschi"),
        ("Bischeri", "Peruzzi"),
        ("Castellani", "Lamberteschi"),
        ("Castellani", "Peruzzi"),
        ("Ginori", "Medici"),
        ("Guadagni", "Lamberteschi"),
        ("Lamberteschi", "Peruzzi"),
        ("Medici", "Pazzi"),
        ("Medici", "Salviati"),
        ("Medici", "Tornabuoni"),
    ]
)
both = sum(business.has_edge(u, v) for u, v in marriages.edges)
print(f"{marriages.number_of_edges()} marriages, {business.number_of_edges()} business ties, {both} are both")

# %%
# Structure alone
# ---------------
# The best matching keeps more ties than matching each family to itself: the two networks have a similar
# structure, but a family's position in one is not always its position in the other.

res = dcfw.qap.match(marriages, business, restarts=20, rng=0)
same = sum(u == v for u, v in res.mapping.items())
print(f"structure alone keeps {res.agreement} ties; {same} of {len(marriages)} families match themselves")
print(f"success: {res.success}")
assert res.agreement > both


def draw(found):
    lost = marriages.number_of_edges() - found.agreement, business.number_of_edges() - found.agreement
    for ax, kind, count in zip(found.plot(), ("marriages", "business ties"), lost, strict=True):
        ax.set_title(f"{kind}: {found.agreement} kept, {count} (red) not")
    plt.tight_layout()
    plt.show()


draw(res)

# %%
# Using the names
# ---------------
# ``similarity`` adds a reward for each pair of nodes; here a family that is matched to itself counts as much
# as half a kept tie (a tie counts 2).  A few ties are given up so that more families match themselves.

named = dcfw.qap.match(marriages, business, similarity=lambda u, v: float(u == v), restarts=20, rng=0)
itself = sum(u == v for u, v in named.mapping.items())
print(f"with names {named.agreement} ties are kept; {itself} families match themselves")
assert both <= named.agreement <= res.agreement
assert itself > same

# %%
# Pass known pairs as ``seeds``: here the Medici match themselves.

seeded = dcfw.qap.match(marriages, business, seeds={"Medici": "Medici"}, restarts=20, rng=0)
assert seeded.mapping["Medici"] == "Medici"
draw(seeded)
