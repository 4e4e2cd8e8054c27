"""Whether all is well, and who is called when it is not: the stream and the live feeds are started again.

Begin with vitals.
"""
