"""`rota demo`: forty tenants, one of them flooding, on a private server.

load     what is sent and when, and how one line would have served it
run      feeds the load, runs the worker, writes down what ran
report   reckons what that shows
view     how it looks meanwhile
summary  what it says at the end
"""
