"""Rows that leave: the changes of tables are sent to Kafka topics, tables of PostgreSQL and functions of the user's.

Begin with publisher.py, which reads a table's commits from where its target has got to and sends what they changed. Each kind of
target is in targets.py; what a project declares, and how far each target has come, in books.py.
"""
