"""Keep it running: the always-on stream, Dagster's programs, and the clean-up of files without an owner.

A module belongs here if it concerns what outlives one command. Begin with stream_host, then background_stream.
"""
