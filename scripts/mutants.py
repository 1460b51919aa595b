"""Change the library in one place at a time and check whether a test fails (mutation testing).

    python scripts/mutants.py --seconds 3600
    python scripts/mutants.py --only dcfw.steps.x_search__mutmut_7 ...
    python scripts/mutants.py --report

The changes ("mutants") are those of mutmut 3.8: every number, operator, comparison, keyword, argument,
assignment, string and branch of every function in ``solvers``, ``sets``, ``steps``, ``tolerances`` and
``gaps``.  mutmut skips decorated functions, so compiled functions and properties are not changed.
There are some ten thousand mutants, so a sample is used: the mutants of each file are shuffled with the seed
and the files interleaved, so that for any time limit the sample is uniform and each file has its share.

A first pass runs the unchanged tests and records which functions each test reaches and its duration.
Each mutant then runs in its own process, forked from one that has everything imported.  It runs
the tests that reach the function, short and specific ones first, until one fails (killed)
or all have passed (survived).  A test that takes far longer than before is ended, which counts as noticed
but is listed separately (timeout).

Results are stored in ``build/mutants/results.json``, from which the same command resumes.  Survivors, and
the reasons why they remain, are in ``tests/mutants.md``.  Requires ``pip install mutmut==3.8.0``.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import doctest
import functools
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "mutants"
TARGETS = ("solvers", "sets", "steps.py", "tolerances.py", "gaps.py")
TESTS = ("checkpoints", "core", "functions", "sets", "solvers", "theory", "repository/test_doctests.py")
"""The tests of these modules, which together take some ten minutes."""
NOT_THESE = ("test_interrupts.py", "test_threads.py", "test_notebook.py", "test_plots.py")
"""Tests of signals and threads, which a forked process disturbs, and of what is displayed."""
LEFT_OUT = ("-k", "not every_claim_of_a_result_holds")  # the many random problems of test_fuzz
LONGEST = 8.0
"""Tests that take more seconds than this are skipped."""
BUDGET = 30.0
"""Seconds of tests run per mutant; tests beyond this limit might have killed it."""
LIMITS = [(signal.SIGPROF, signal.ITIMER_PROF, 4.0), (signal.SIGALRM, signal.ITIMER_REAL, 60.0)]
"""A test may take ten times as long as with the unchanged code, plus these seconds."""


def targets() -> list[Path]:
    folder = ROOT / "src" / "dcfw"
    files = [
        p
        for name in TARGETS
        for p in ([folder / name] if name.endswith(".py") else (folder / name).glob("*.py"))
    ]
    return sorted(p.relative_to(ROOT) for p in files)


def write_mutants() -> dict[str, list[str]]:
    """Write the library with all mutants to the work folder; return their names by file."""
    from mutmut.mutation.file_mutation import mutate_file_contents

    known = load("written.json")
    written: dict[str, Any] = {}
    chosen = targets()
    for source in sorted(
        p for p in (ROOT / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts
    ):
        path = source.relative_to(ROOT)
        (WORK / path).parent.mkdir(parents=True, exist_ok=True)
        if path not in chosen:
            shutil.copyfile(source, WORK / path)
            continue
        text = source.read_text()
        digest = hashlib.sha256(text.encode()).hexdigest()
        if known.get(str(path), {}).get("digest") == digest:  # unchanged; writing all mutants takes minutes
            written[str(path)] = known[str(path)]
            continue
        mutated = mutate_file_contents(str(path), text)
        (WORK / path).write_text(mutated.code)
        module = ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")
        names = [f"{module}.{name}" for name in mutated.mutant_names]
        written[str(path)] = {"digest": digest, "names": names}
        save("written.json", known | written)
        results = load("results.json")  # mutants are numbered: results of a changed file are void
        save("results.json", {k: v for k, v in results.items() if k.rpartition(".")[0] != module})
    save("written.json", written)
    return {path: entry["names"] for path, entry in written.items()}


def in_sample_order(names: dict[str, list[str]], seed: int) -> list[str]:
    """Return all mutants in an order whose first n are, for every n, a sample with a share of each file."""
    rng = random.Random(seed)
    ranked = []
    for path in sorted(names):
        shuffled = sorted(names[path])
        rng.shuffle(shuffled)
        ranked += [((rank + rng.random()) / len(shuffled), name) for rank, name in enumerate(shuffled)]
    return [name for _, name in sorted(ranked)]


def function_of(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0]


def difference(mutant: str) -> str:
    """Return the change as a short diff with the line number in the original file."""
    module, _, name = mutant.rpartition(".")
    path = Path(*module.split("."))
    path = next(p for p in (path.with_suffix(".py"), path / "__init__.py") if (WORK / "src" / p).exists())
    text = (WORK / "src" / path).read_text()
    lines = text.splitlines()
    found = {n.name: n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)}
    sides = [found[f"{function_of(name)}__mutmut_orig"], found[name]]
    function = name.rpartition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    plain = function.rpartition(".")[2]
    before, after = (
        [s.rstrip().replace(n.name, plain) for s in lines[n.lineno - 1 : n.end_lineno]] for n in sides
    )
    original = (ROOT / "src" / path).read_text().splitlines()
    changed = [
        s for s in difflib.unified_diff(before, after, lineterm="", n=0) if not s.startswith(("---", "+++"))
    ]
    offset = int(next(s for s in changed if s.startswith("@@")).split()[1].lstrip("-").split(",")[0])
    start = next(
        (
            i
            for i, line in enumerate(original, start=1)
            if line.strip().startswith(f"def {plain}(")
            and original[i : i + len(before) - 1] == before[1 : len(original) - i + 1]
        ),
        0,
    )
    body = "\n".join(s for s in changed if not s.startswith("@@"))
    return f"{path}:{start + offset - 1} {function}\n{body}"


class Plugin:
    """A pytest plugin that replaces pytest's loop over the tests."""

    def __init__(self, order: list[str], options: argparse.Namespace) -> None:
        self.order = order
        self.options = options
        self.results: dict[str, str] = load("results.json")
        self.stats: dict[str, Any] = {}

    def pytest_collection(self) -> None:
        from hypothesis import (
            settings,
        )  # before the tests are imported, whose settings start from the profile

        settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: Any) -> bool:
        import dcfw

        assert Path(dcfw.__file__).is_relative_to(WORK), dcfw.__file__
        if session.testsfailed:
            raise SystemExit("the tests cannot be collected")
        self.find_out(session)
        self.run(session)
        return True

    def find_out(self, session: Any) -> None:
        """Run all tests once with the unchanged code."""
        from _pytest.runner import runtestprotocol
        from mutmut.state import state

        known = {} if self.options.fresh else load("stats.json")
        tests: dict[str, Any] = known.get("tests", {})
        os.environ["MUTANT_UNDER_TEST"] = "stats"
        unknown = [item for item in session.items if item.nodeid not in tests]
        for item, following in zip(unknown, [*unknown[1:], None], strict=False):
            state()._stats.clear()
            started = seconds_spent()
            reports = runtestprotocol(item, log=False, nextitem=following)
            took = seconds_spent() - started
            fine = all(report.passed for report in reports)
            if not fine and not any(report.skipped for report in reports):
                print(f"skipped, fails with the unchanged code: {item.nodeid}", file=sys.__stderr__)
            tests[item.nodeid] = {"seconds": took, "fine": fine, "reaches": sorted(state()._stats)}
        os.environ["MUTANT_UNDER_TEST"] = ""
        self.stats = {"tests": tests}
        save("stats.json", self.stats)

    def run(self, session: Any) -> None:
        from _pytest.runner import runtestprotocol

        # Short tests that reach few functions come first.
        known = self.stats["tests"]
        usable = [item for item in session.items if known[item.nodeid]["fine"]]
        usable = [item for item in usable if known[item.nodeid]["seconds"] <= LONGEST]
        usable.sort(key=lambda item: known[item.nodeid]["seconds"] * len(known[item.nodeid]["reaches"]))
        items: dict[str, list[tuple[float, Any]]] = {}
        control: dict[Path, tuple[float, Any]] = {}
        for item in usable:
            test = known[item.nodeid]
            control.setdefault(item.path, (test["seconds"], item))
            for name in test["reaches"]:
                items.setdefault(name, []).append((test["seconds"], item))
        chosen = [item for _, item in control.values()]  # these also load the compiled modules once
        for item, following in zip(chosen, [*chosen[1:], None], strict=False):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                raise SystemExit(f"fails with the unchanged code: {item.nodeid}")
        unchanged = self.try_out("", [(known[item.nodeid]["seconds"], item) for item in chosen])
        if unchanged != "survived":
            raise SystemExit(f"the unchanged code, tried like a mutant, is {unchanged}")
        only = self.options.only
        todo = [name for name in self.order if name in only] if only else self.order
        end = time.monotonic() + self.options.seconds
        for count, name in enumerate(todo):
            if time.monotonic() > end or (not only and count >= self.options.count):
                break
            if not only and name in self.results:
                continue
            tests, spent = [], 0.0
            for seconds, item in items.get(function_of(name), []):
                spent += seconds
                if spent <= BUDGET:
                    tests.append((seconds, item))
            started = time.monotonic()
            self.results[name] = outcome = self.try_out(name, tests) if tests else "no tests"
            save("results.json", self.results)
            line = f"{outcome:14.14} {time.monotonic() - started:6.1f} s {name}"
            print(line, file=sys.__stderr__, flush=True)

    def try_out(self, name: str, tests: list[tuple[float, Any]]) -> str:
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns of forks: the next test would report that
            pid = os.fork()
        if pid == 0:
            os.close(read)
            self.child(name, tests, write)
        os.close(write)
        with os.fdopen(read) as pipe:
            last = pipe.read().splitlines()[-1:]
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return "survived"
        by = last[0] if last else "?"
        ended = os.WIFSIGNALED(status) and os.WTERMSIG(status) in [number for number, _, _ in LIMITS]
        return f"timeout by {by}" if ended else f"killed by {by}"

    def child(self, name: str, tests: list[tuple[float, Any]], pipe: int) -> None:
        from _pytest.runner import runtestprotocol

        code = 1
        try:
            os.environ["MUTANT_UNDER_TEST"] = name
            forget_answers()
            for k, (seconds, item) in enumerate(tests):
                os.write(pipe, f"{item.nodeid}\n".encode())
                for number, timer, least in LIMITS:  # processor time, and wall-clock time if it sleeps
                    signal.signal(number, signal.SIG_DFL)
                    signal.setitimer(timer, least + 10.0 * seconds)
                following = tests[k + 1][1] if k + 1 < len(tests) else None
                if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                    return
            code = 0
        finally:
            os._exit(code)


def seconds_spent() -> float:
    """Return the processor time of this process and its children."""
    return sum(os.times()[:4])


def forget_answers() -> None:
    """Clear the caches of functions, which were filled with the unchanged code."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "dcfw":
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def load(name: str) -> dict[str, Any]:
    path = WORK / name
    return json.loads(path.read_text()) if path.exists() else {}  # type: ignore[no-any-return]


def save(name: str, content: dict[str, Any]) -> None:
    (WORK / f"{name}.part").write_text(json.dumps(content, indent=1))
    (WORK / f"{name}.part").replace(WORK / name)


def report(names: dict[str, list[str]], show: bool) -> None:
    results = load("results.json")
    print(
        f"{'file':40} {'mutants':>8} {'tried':>6} {'killed':>7} {'timeout':>8} {'survived':>9} {'no test':>9}"
    )
    total: Counter[str] = Counter()
    for path, mutants in names.items():
        found = Counter(results[name].split(" by ")[0] for name in mutants if name in results)
        found["mutants"], found["tried"] = len(mutants), found.total()
        total += found
        print(row(path.removeprefix("src/dcfw/"), found))
    print(row("all", total))
    noticed = total["killed"] + total["timeout"]
    print(f"noticed: {noticed} of {total['tried']} ({100.0 * noticed / max(total['tried'], 1):.1f} %)")
    if show:
        for name in sorted(results):
            if results[name] in ("survived", "no tests"):
                print(f"\n{name} ({results[name]})\n{difference(name)}")


def row(label: str, found: Counter[str]) -> str:
    return (
        f"{label:40} {found['mutants']:8} {found['tried']:6} {found['killed']:7} {found['timeout']:8} "
        f"{found['survived']:9} {found['no tests']:9}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="mutation testing: see the head of this file")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--count", type=int, default=10**9, help="the size of the sample")
    parser.add_argument("--seconds", type=float, default=3600.0, help="start no mutant after this time")
    parser.add_argument("--only", nargs="+", default=[], help="run these mutants, even if tried before")
    parser.add_argument("--fresh", action="store_true", help="measure again which functions the tests reach")
    parser.add_argument("--report", action="store_true", help="only show the survivors")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if options.report:
        report({path: entry["names"] for path, entry in load("written.json").items()}, show=True)
        return
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # forking is unsafe with threads
    names = write_mutants()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(WORK / "src"), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(WORK / "src"))
    sys.dont_write_bytecode = True
    os.chdir(ROOT)

    find = doctest.DocTestFinder.find  # skip the mutants' copies of the functions' examples

    def find_originals(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return [test for test in find(self, *args, **kwargs) if "__mutmut_" not in test.name]

    doctest.DocTestFinder.find = find_originals  # type: ignore[method-assign]
    import pytest

    paths = [ROOT / "tests" / name for name in TESTS]
    found = [p for path in paths for p in (path.glob("test_*.py") if path.is_dir() else [path])]
    files = sorted(str(p) for p in found if p.name not in NOT_THESE)
    plugin = Plugin(in_sample_order(names, options.seed), options)
    pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *LEFT_OUT, *files], plugins=[plugin])
    report(names, show=False)


if __name__ == "__main__":
    main()
