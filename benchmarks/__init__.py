"""What rota costs, measured on a private server: `python -m benchmarks [PART …]`, `make bench`.

Each part is one module whose docstring says what its figures show and what they do not. Ratios
are taken between figures of one run; what is printed is the median of several.
"""
