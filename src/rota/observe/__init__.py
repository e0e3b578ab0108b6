"""What is told of jobs: log lines, spans, and to an observer that counts."""
