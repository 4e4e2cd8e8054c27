"""Tests of tables that users write: scenarios of records that arrive, by a fixture of pytest.

Above the use cases, below the public interface. Begin with plugin, then scenario.
"""
