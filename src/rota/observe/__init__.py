"""What is told of jobs: log lines and spans."""
