"""One batch: how large it may be, what is joined to its rows, where they are written, and the entry that counts them.

Begin with batch_writer.
"""
