"""Regular expressions of rules: read, checked for run-away cost, and written for Java and for Python. Begin with parse."""
