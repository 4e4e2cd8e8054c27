"""What is done again and again, whether or not events come: reports, maintenance, history that is let go.

Begin with upkeep.
"""
