"""HOW: the only code that reads or writes, in rooms; imports go down only, as import-linter holds (pyproject.toml).

``service`` and ``trust`` rest on ``proof``, that on ``repair``, ``trace``, ``pipeline``, ``gates``, ``accounting``,
``history`` and ``quarantine``, ``kafka``, ``storage`` and ``runtime``. Each room's docstring names where to begin.
"""
