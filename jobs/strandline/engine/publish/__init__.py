"""Rows that leave: the changes of tables are sent to Kafka topics, tables of PostgreSQL and functions of the user's.

Begin with publisher.py, which reads a table's commits from where its target has got to and sends what they changed. What a project
declares is in declared.py, each kind of target in a module of its own, and books.py keeps how far each has come.
"""
