"""rota: the job queue for services with many tenants, on Valkey or Redis."""
