"""The parts of a worker: fetch, run, settle, watch."""
