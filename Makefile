# Jobs that take too long for every change.  Seeds, time and number of cases can be set:
#     make fuzz SEED=1000000 SECONDS=600 CASES=20000
#     make mutants SECONDS=7200
# An interrupted job resumes: fuzz if STATE names a file, mutants always.

PYTHON ?= python
SEED ?= 0
SECONDS ?= 3600
CASES ?= 100000
STATE ?=

.PHONY: coverage fuzz mutants

fuzz:  ## check certificates of random problems in extended precision (prints failing seeds)
	$(PYTHON) tests/cases/fuzz_certificates.py --seconds $(SECONDS) --cases $(CASES) --seed $(SEED) $(if $(STATE),--state $(STATE))

mutants:  ## mutation testing of the core (needs mutmut 3.8; survivors: tests/mutants.md)
	$(PYTHON) scripts/mutants.py --seed $(SEED) --seconds $(SECONDS)

coverage:  ## run the tests with branch coverage (needs coverage)
	$(PYTHON) -m coverage erase
	$(PYTHON) -m coverage run -m pytest -q
	$(PYTHON) -m coverage combine -q
	$(PYTHON) -m coverage report --skip-covered --sort=cover
