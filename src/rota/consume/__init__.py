"""Claiming and settling, leases and the doorbell: what workers and consumers share."""
