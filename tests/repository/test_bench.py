"""The benches compare like with like: the transcription takes our steps, a rival that is cut short counts."""

import json

import numpy as np
import pytest

from dcfw import qap
from dcfw.sets import Birkhoff
from places import ROOT

transcription = pytest.importorskip("bench.transcription", reason="bench is not part of an installed dcfw")


@pytest.mark.parametrize("seed", [0, 1])
def test_the_transcription_of_algorithm_1_has_our_iterates(seed):
    rng = np.random.default_rng(seed)
    A, B = rng.random((2, 9, 9))  # asymmetric, no ties
    X0 = Birkhoff(9).random(rng, scale=0.001)
    result = qap.solve(A, B, split="paper", inner="fw", init=X0)
    X, steps = transcription.dc_frank_wolfe(A, B, X0, max_inner=10**6)
    assert steps == result.n_inner > 100
    np.testing.assert_allclose(X, result.x, atol=1e-8)


@pytest.mark.parametrize("solver", ["dcfw", "faq", "faq+2opt", "2opt"])
def test_each_solver_of_the_quality_bench_returns_a_permutation(solver):
    from bench.quality import SOLVERS

    instance = qap.generators.li_pardalos((3, 3), rng=0)
    p, calls = SOLVERS[solver](instance, 0.05, 0)
    assert calls >= 1
    assert qap.evaluate(instance.A, instance.B, p) >= instance.best


def test_an_interrupted_two_opt_counts_with_what_it_has():
    from bench.quality import two_opt

    instance = qap.generators.taillard_uniform(60, seed=1)
    p, calls = two_opt(instance, 0.02, 0)  # a whole descent takes seconds
    assert calls == 1
    start = np.random.default_rng(0).permutation(60)
    assert qap.evaluate(instance.A, instance.B, p) < qap.evaluate(instance.A, instance.B, start)


def test_a_second_call_measures_only_what_is_missing(tmp_path, monkeypatch):
    from bench import quality

    asked = []

    def measure(name, solver, seconds, seed):
        asked.append((name, solver))
        return {"instance": name, "solver": solver, "seconds": seconds, "seed": seed, "error": len(asked)}

    monkeypatch.setattr(quality, "measure", measure)
    monkeypatch.setattr(quality, "_warm_up", lambda: None)
    output = tmp_path / "rows.jsonl"
    first = list(quality.rows(["nug12"], 1.0, output=output))
    assert [json.loads(line) for line in output.read_text().splitlines()] == first
    second = list(quality.rows(["nug12", "nug30"], 1.0, output=output))
    assert second[:4] == first
    assert asked[4:] == [("nug30", solver) for solver in quality.SOLVERS]
    list(quality.rows(["nug12"], 2.0, output=output))
    assert len(asked) == 12


def test_thirty_instances_are_listed_and_any_number_of_them_spans_all_sizes():
    from bench.quality import INSTANCES, spread

    assert len(set(INSTANCES)) == 30
    assert spread(30) == list(INSTANCES)
    assert {INSTANCES[0], INSTANCES[-1]} <= set(spread(5))
    with pytest.raises(ValueError, match="between 1 and 30"):
        spread(31)


def test_a_bench_whose_peer_is_missing_names_the_command_that_installs_it(monkeypatch):
    from bench import __main__ as command

    def absent(name):
        raise ModuleNotFoundError("No module named 'copt'", name="copt.constraint")

    monkeypatch.setattr(command.importlib, "import_module", absent)
    with pytest.raises(SystemExit, match=r'bench core needs copt: pip install ".\[bench\]"'):
        command.main(["core"])


def test_rows_that_a_file_has_are_not_measured_again(tmp_path, monkeypatch):
    graphs = pytest.importorskip("bench.graphs")
    calls = []

    def part(full, graspologic):
        for n in (1, 2, 3):
            yield {"n": n}, lambda n=n: calls.append(n) or {"lost": 2 * n}

    monkeypatch.setattr(graphs, "PARTS", {"part": part})
    path = tmp_path / "rows.jsonl"
    path.write_text('{"part": "part", "n": 2, "lost": 7}\n')
    rows = graphs.measured(["part"], False, path)
    assert calls == [1, 3]
    assert [row["lost"] for row in rows] == [2, 7, 6]
    assert sorted(row["n"] for row in graphs.read(path)) == [1, 2, 3]


def test_the_page_of_graph_matching_is_made_of_its_rows():
    graphs = pytest.importorskip("bench.graphs")
    folder = ROOT / "results" / "graphs"
    page = graphs.graph_tables.tables(graphs.read(folder / "rows.jsonl"))
    assert (folder / "README.md").read_text(encoding="utf-8") == page + "\n"
