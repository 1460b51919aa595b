"""``import dcfw`` is light: heavy packages are loaded on first use, and a bench measures the time."""

import pytest

from processes import HEAVY, loaded


def test_the_check_sees_what_is_loaded():
    assert loaded("import scipy.optimize", HEAVY) == ["scipy.optimize"]


def test_import_dcfw_loads_nothing_heavy():
    assert loaded("import dcfw", (*HEAVY, "sklearn", "dask", "distributed", "networkx", "joblib")) == []


def test_the_bench_of_imports_measures_dcfw_against_numpy(monkeypatch):
    imports = pytest.importorskip("bench.imports", reason="bench is not part of an installed dcfw")
    asked = []

    def seconds(statement):
        asked.append(statement)
        return {"import numpy": 0.2, "import dcfw": 0.1}.get(statement, 0.8)

    monkeypatch.setattr(imports, "seconds", seconds)
    monkeypatch.setattr(imports, "processor_seconds", lambda program: 0.6 if "dcfw" in program else 0.5)
    (name, ours, peer), (_, first_solve, same_peer), *processes = imports.run(False)
    assert [(spent, imported) for _, spent, imported in processes] == [(0.6, 0.5)] * 2
    assert (ours, peer, first_solve, same_peer) == (0.1, 0.2, 0.8, 0.2)
    assert "0.50 of import numpy (within the limit 1.5)" in name
    # Interleaved: each is asked once before any is asked again.
    assert len(asked) >= 60
    assert all(len(set(asked[i : i + 3])) == 3 for i in range(0, len(asked), 3))


def test_the_bench_of_imports_times_a_fresh_interpreter():
    imports = pytest.importorskip("bench.imports", reason="bench is not part of an installed dcfw")
    assert 0.0 < imports.seconds("import json") < 60.0
