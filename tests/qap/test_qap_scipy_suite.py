"""SciPy's own tests of ``quadratic_assignment``, run against ours.

The test classes are imported from the installed SciPy and run unchanged, with the name
``quadratic_assignment`` in their module replaced by ours.  Where they leave the method out they mean "faq",
which is SciPy's default and not ours, so the replacement says so; the checks of input that all methods share
are run once more with our own default.

Left out:

- ``test_deprecation_future_warnings`` (both methods): it tests warnings about SciPy's move from RandomState
  to Generator.  Ours has never used anything but Generators (a RandomState is accepted as a source of
  bits), so there is nothing to warn of.
- For our own methods: ``test_accuracy_1`` and ``test_accuracy_2``, which state where FAQ and 2-opt end on two
  4 x 4 problems, and the tests of nit, which count those algorithms' steps.

SciPy's wheels ship their tests; where a distribution strips them, this file skips and says so
(``test_qap_scipy.py`` has our own tests of the same interface).
"""

import pytest

from dcfw.qap import quadratic_assignment

suite = pytest.importorskip(
    "scipy.optimize.tests.test_quadratic_assignment", reason="this SciPy was installed without its tests"
)

LEFT_OUT = {"test_deprecation_future_warnings"}


def cases(*classes):
    return [
        pytest.param(cls, name, id=f"{cls.__name__}-{name}")
        for cls in classes
        for name in dir(cls)
        if name.startswith("test_") and name not in LEFT_OUT
    ]


def run(cls, name, default, monkeypatch, **more):
    def replacement(A, B, method=default, options=None):
        return quadratic_assignment(A, B, method, {**(options or {}), **more})

    monkeypatch.setattr(suite, "quadratic_assignment", replacement)
    getattr(cls(), name)()


@pytest.mark.parametrize(("cls", "name"), cases(suite.TestFAQ, suite.Test2opt, suite.TestQAPOnce))
def test_scipy_s_own_test_passes(cls, name, monkeypatch):
    run(cls, name, "faq", monkeypatch)


@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (suite.TestQAPOnce, "test_common_input_validation"),
        (suite.TestFAQ, "test_specific_input_validation"),
    ],
)
def test_our_methods_check_their_input_as_scipy_does(cls, name, method, monkeypatch):
    run(cls, name, method, monkeypatch)


@pytest.mark.parametrize("method", ["dcfw", "fw"])
@pytest.mark.parametrize("name", ["test_accuracy_3", "test_unknown_options"])
def test_our_methods_pass_the_tests_that_are_not_about_one_algorithm(name, method, monkeypatch):
    mine = type("Mine", (suite.QAPCommonTests,), {"method": method})
    run(mine, name, method, monkeypatch, restarts=5)


def test_what_is_left_out_exists():
    for name in LEFT_OUT:
        assert callable(getattr(suite.QAPCommonTests, name))
