"""What topics hold, how far they were read, and which slice is read next.

Queries of a broker enter; pipeline decides what follows from the answers. Begin with topic_log, then slices.
"""
