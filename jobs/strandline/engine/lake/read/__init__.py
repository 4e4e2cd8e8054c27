"""How rows are found without a JVM: a version of a table, the files of a range, an event, an entry of long ago.

Begin with open_table.
"""
