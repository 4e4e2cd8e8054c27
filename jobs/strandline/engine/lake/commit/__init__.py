"""How rows are committed: with the entry that counts them, instead of other rows, or put together and unchanged.

Begin with delta_commit.
"""
