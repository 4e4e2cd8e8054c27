"""May the numbers be believed? The daily report and the checks that it is made of.

A module belongs here if it gathers evidence for people; it computes no rows. Begin with daily_report.
"""
