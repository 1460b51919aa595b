# The jobs that are too long for every change.  Seeds, time and number of cases can be set:
#     make fuzz SEED=1000000 SECONDS=600 CASES=20000
# A job that was interrupted goes on where it stopped when STATE names a file.

PYTHON ?= python
SEED ?= 0
SECONDS ?= 3600
CASES ?= 100000
STATE ?=

.PHONY: fuzz

fuzz:  ## random problems against extended precision: no wrong certificate (prints failing seeds)
	$(PYTHON) tests/fuzz_certificates.py --seconds $(SECONDS) --cases $(CASES) --seed $(SEED) $(if $(STATE),--state $(STATE))
