"""Claiming and settling, leases and the doorbell: what workers and consumers share.

membership.py   a consumer's place in a queue: joining, losing its lease, leaving; what all share
deliveries.py   what it holds: numbered claims, unknown outcomes
lease.py        renewing leases, in the process's lease_thread.py
doorbell.py     who waits for work and who is woken: the rules; bell.py: their two drivers
"""
