"""Files of a lake that are not tables: models, rules, schemas, figures of the past, notes of an import.

Begin with history_file.
"""
