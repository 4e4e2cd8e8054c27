"""What the lakehouse stands on: set-up, Java, jars and pinned versions. Standard library only."""
