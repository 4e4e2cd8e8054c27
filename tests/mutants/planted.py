"""Faults that a change could put into the engine, each with the tests that must notice.

A suite that is green proves little until it has been seen red for the right reason. Each fault is one that was made once,
here or elsewhere: a row dropped, an error swallowed, a lock skipped, an offset off by one, a sign reversed.
"""

from tests.mutants import of_batches, of_lakes

MUTANTS = (*of_batches.FAULTS, *of_lakes.FAULTS)
