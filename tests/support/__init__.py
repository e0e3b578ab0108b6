"""What tests share: waiting for conditions, servers as subprocesses, a proxy that misbehaves."""
