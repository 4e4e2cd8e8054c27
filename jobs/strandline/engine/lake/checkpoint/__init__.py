"""The folder in which Spark notes what a stream has read: what it says, and how it is mended, moved and cut.

Begin with spark_checkpoint.
"""
