"""The use cases: what the command line and Dagster do with a lake, by the same functions.

No module here parses a command line, prints or draws: what is to be said meanwhile goes to a function that the caller gives.
Above the engine, below who asks. Begin with lakes, then session.
"""
