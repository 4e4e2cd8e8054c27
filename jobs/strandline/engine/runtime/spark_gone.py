"""The error of a program whose JVM is gone, or was killed because it answered to nothing.

It is apart from what recognises it (jvm.py), because that needs PySpark, which a command without a JVM does not load.
"""

from strandline.core.errors import TransientError


class SparkGoneError(TransientError):
    """The JVM is gone, and threads that waited for it may still be there when the program ends."""
