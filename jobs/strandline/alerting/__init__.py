"""Alerts: what a project declares for its rules, the tables of what they raise, the rules, their history, and their delivery.

Nothing below imports it: a project that declares no sources pays nothing for it (jobs/strandline/catalog.py). Begin with alert_rule.
"""
