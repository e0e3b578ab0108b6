"""The Lua scripts: their loader, typed stubs, keys and replies."""
